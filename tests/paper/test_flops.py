import pytest

from mambamatcher.paper.flops import Sizes, conv4d, counts, fastformer, mamba, similarity_scan, vanilla_attention


def test_the_printed_terms_of_mamba_add_up_to_8_2_and_not_to_the_printed_23_1_gigaflop():
    count = mamba(Sizes())
    assert round(count.paper_sum / 1e9, 1) == 8.2
    assert count.paper_total == 23.1e9
    assert "8.2 GFLOP, not 23.1" in count.remark


def test_right_terms_of_mamba_equal_a_hand_calculation():
    small = Sizes(tokens=10, width=2, inner=6, state=4, rank=1, conv=3)
    # in 2*2*10*2*6, conv 2*10*6*3, B C Δ 2*10*6*9, Δ up 2*10*6, scan 9*10*6*4, gate 60, out 2*10*6*2
    assert mamba(small).right == 480 + 360 + 1080 + 120 + 2160 + 60 + 240


def test_the_papers_other_sums_are_what_it_prints():
    assert vanilla_attention(Sizes()).paper_sum == pytest.approx(44.0e12, rel=1e-3)
    assert fastformer(Sizes()).paper_sum == pytest.approx(1.74e9, rel=1e-3)
    assert conv4d(Sizes()).paper_sum == pytest.approx(33.6e9, rel=1e-3)


def test_sorting_adds_what_the_paper_says():
    assert similarity_scan(Sizes()).right - mamba(Sizes()).right == pytest.approx(0.064e9, rel=0.01)


def test_every_scheme_is_counted_once():
    assert len({count.name for count in counts()}) == 5
