"""The paper's ablation and cost tables as it prints them. Nothing in this file was measured by this project."""

from mambamatcher.paper.quoted import IDENTICAL, LARGE, SAME_MODEL, SMALL, Quoted

FACETS = Quoted(
    label="tbl:feature_facet_ablation",
    title="Single facets of layer 11",
    protocol=f"{SMALL}; nothing trained",
    text="""
Token | 25.2 43.1 55.7
Query | 18.6 33.3 43.3
Key | 15.6 30.0 41.4
Value | 24.4 41.8 53.6
""",
    remarks=(IDENTICAL,),
)
FACETS_COMBINED = Quoted(
    label="tbl:feature_facet_multi_ablation",
    title="Facets combined, layers 4-11",
    protocol=f"{SMALL}; linear projection trained",
    text="""
Token | 30.8 48.6 59.0
+ Value | 32.3 50.5 61.0
+ Value, Query | 32.5 50.6 61.0
+ Value, Query, Key | 33.2 50.7 61.3
""",
    remarks=(IDENTICAL,),
)
LAYERS = Quoted(
    label="tbl:feature_layer_ablation",
    title="Single layers of DINOv2, token facet",
    protocol="SPair-71k small, alpha_img as the paper says, per image; nothing trained",
    text="""
0 | 0.9 3.8 8.2
1 | 1.5 5.3 11.2
2 | 1.7 6.1 12.2
3 | 4.2 11.1 18.8
4 | 7.3 16.1 24.6
5 | 10.2 20.6 29.8
6 | 13.1 23.6 31.8
7 | 17.5 29.8 39.0
8 | 20.7 35.2 45.7
9 | 23.9 40.3 51.5
10 | 25.2 42.5 54.1
11 | 25.2 43.1 55.7
""",
    remarks=(IDENTICAL,),
)
LAYERS_COMBINED = Quoted(
    label="tbl:feature_layer_multi_ablation",
    title="Layers of DINOv2 combined, token facet",
    protocol="SPair-71k small, alpha_img as the paper says, per image; linear projection trained",
    text="""
11 | 25.2 43.1 55.7
10-11 | 29.2 46.4 56.8
9-11 | 28.9 46.7 58.0
8-11 | 29.6 47.4 58.3
7-11 | 30.4 48.5 58.8
6-11 | 30.8 48.4 58.7
5-11 | 30.9 48.4 58.6
4-11 | 30.8 48.6 59.0
3-11 | 31.0 48.7 59.0
2-11 | 31.2 48.9 58.7
1-11 | 31.4 48.9 58.8
0-11 | 31.4 48.9 58.7
""",
    remarks=(IDENTICAL,),
)
FEATURES = Quoted(
    label="tbl:feature_aggregation_ablation",
    title="Feature aggregation, with a linear projection of the correlation levels",
    protocol=SMALL,
    text="""
None | 32.3 50.5 61.0
2D Conv k=1 | 54.5 72.3 79.8
2D Conv k=3 | 58.9 77.9 84.6
2D Conv k=5 | 59.2 78.4 85.3
Self-attn | 48.5 68.2 76.9
+ Cross-attn. | 35.2 57.0 68.6
Mamba2D | 56.3 74.7 81.5
+ bidirectional | 53.3 75.2 82.8
+ Z-order curve | 56.0 75.2 82.8
PlainMamba | 54.1 74.0 81.8
""",
    remarks=(SAME_MODEL,),
)
CORRELATION = Quoted(
    label="tbl:correlation_aggregation_ablation",
    title="Correlation aggregation",
    protocol=SMALL,
    text="""
4D Conv k=1 | 59.2 78.4 85.3
4D Conv k=3 | 59.2 78.2 85.2
4D Conv k=5 | 39.2 67.9 79.0
FastFormer | 59.5 78.9 85.7
PlainMamba | 56.7 78.5 85.7
Mamba4D | 59.3 78.8 85.6
+ bidirectional | 59.0 78.6 85.5
+ Z-order curve | 58.4 79.0 85.6
+ ascending order | 58.4 78.2 85.2
+ descending order | 59.9 79.3 86.2
""",
    remarks=(SAME_MODEL,),
)
SORT_KEY = Quoted(
    label="tbl:sorting_comparison",
    title="What the correlation sequence is sorted by",
    protocol=LARGE,
    text="""
Last level | 61.6 77.8 84.3
Penultimate level | 61.0 77.7 84.2
Mean across levels | 60.9 76.6 83.8
""",
)
POSITIONAL = Quoted(
    label="tbl:appendix_positional_encoding",
    title="Positional encoding of the correlation sequence",
    protocol=LARGE,
    text="""
None | 61.6 77.8 84.3
Sinusoidal | 61.2 77.8 84.2
Learnable | 61.5 77.6 84.5
""",
)
BACKBONES = Quoted(
    label="tbl:varying_backbone_aug",
    title="Backbone and augmentation",
    protocol=LARGE,
    text="""
ResNet101, no augmentation | 38.2 53.3 61.3
ResNet101, augmentation | 41.0 58.5 67.4
DINOv2, no augmentation | 57.9 74.6 81.8
DINOv2, augmentation | 61.6 77.8 84.3
""",
)
SIGNIFICANCE = Quoted(
    label="tbl:statistical_significance",
    title="Three seeds: FastFormer against the similarity-aware scan",
    protocol=f"{SMALL}; in brackets the mean minus and plus the standard deviation over 3 seeds",
    text="""
FastFormer | 59.9±0.74 76.9±1.40 83.9±1.27
+ descending order | 60.6±0.54 78.2±0.76 85.0±0.86
""",
    remarks=(
        "The same two rows print 59.5 78.9 85.7 and 59.9 79.3 86.2 in the correlation table: at 0.10 above both means.",
        "The means at 0.10 are 1.3 apart, with deviations of 1.40 and 0.76 over three seeds: t = 1.4, which chance "
        "reaches in about a quarter of such comparisons.",
    ),
)
RESOLUTION = Quoted(
    label="tbl:larger_image_resolutions_pck",
    title="PCK at other image sides",
    protocol=LARGE,
    columns=("grid", "PCK@0.05", "PCK@0.10", "PCK@0.15"),
    headline=2,
    text="""
side 238 | 17 26.4 39.7 46.5
side 420 | 30 61.6 77.8 84.3
side 840 | 60 64.2 78.4 85.2
""",
)
RESOLUTION_COST = Quoted(
    label="tbl:larger_image_resolutions",
    title="Cost at larger image sides",
    protocol="RTX 3090; memory and time up to and including the correlation aggregation",
    columns=("grid", "memory, GB", "ms"),
    headline=2,
    text="""
Mamba + similarity-aware scan, side 420 | 30 1.64 16.4
FastFormer, side 420 | 30 1.67 28.8
Mamba + similarity-aware scan, side 560 | 40 3.25 16.6
FastFormer, side 560 | 40 3.16 28.9
Mamba + similarity-aware scan, side 700 | 50 6.47 17.7
FastFormer, side 700 | 50 6.27 55.6
""",
    remarks=(
        "From 30^4 to 50^4 tokens, 7.7 times as many, the printed time of the whole model grows by 1.3 ms; a scan that "
        "takes time in proportion to its tokens cannot do that. The paper does not say whether its clock waited for "
        "the GPU.",
        "The text says the scan takes consistently less memory than FastFormer; at sides 560 and 700 it takes more.",
    ),
)
MODULES = Quoted(
    label="tbl:memory_usage_and_latency",
    title="Memory, latency and parameters by module",
    protocol="RTX 3090, side 420; memory and latency cumulative",
    columns=("memory, GB", "ms", "parameters"),
    text="""
DINOv2 | 0.97 10.3 86.6M
Feature aggregation | 1.17 12.3 42.5M
4D Conv k=3 | 1.17 41.0 1.3K
FastFormer | 1.67 28.8 26.0K
Mamba + similarity-aware scan | 1.64 16.4 5.1K
""",
    remarks=("The main table prints 74 ms and 2.1 GB for the whole model.",),
)
FLOPS = Quoted(
    label="tbl:ptflops_calflops",
    title="FLOPs as libraries count them",
    protocol="ptflops and calflops; side 420",
    columns=("GFLOP",),
    headline=0,
    text="""
DINOv2, ptflops | 359.32
DINOv2, calflops | 358.99
Feature aggregation, both | 2450
4D Conv k=3, both | 2.06
FastFormer, ptflops | 43.54
FastFormer, calflops | 43.05
Mamba + similarity-aware scan, ptflops | 0.02754
Mamba + similarity-aware scan, calflops | 3.84
""",
)
THEORY = Quoted(
    label="sec:appendix_flops",
    title="FLOPs in theory",
    protocol="the appendix's formulas, N = 30^4, C = 16",
    columns=("GFLOP",),
    headline=0,
    text="""
4D Conv k=3 | 33.6
Vanilla attention | 44000
FastFormer | 1.74
Mamba | 23.1
Mamba + similarity-aware scan | 23.2
""",
)
