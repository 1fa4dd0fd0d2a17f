"""The paper's model: backbones, feature aggregation, correlation aggregation, keypoint transfer and losses."""
