from dataclasses import replace

import pytest

from mambamatcher.datasets.benchmarks import DATASETS
from mambamatcher.model.config import from_dict, to_dict
from mambamatcher.model.mambamatcher import build_untrained
from mambamatcher.training.recipe import Recipe
from mambamatcher.training.recipes import RECIPES


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_names_its_data_can_be_written_down_and_trains_on_two_processes(name):
    named = RECIPES[name]()
    assert named.split in DATASETS[named.dataset].splits
    assert from_dict(Recipe, to_dict(named.recipe)) == named.recipe
    assert named.recipe.accumulation(2) >= 1
    config = named.recipe.model
    model = build_untrained(replace(config, backbone=replace(config.backbone, weights="random")))
    assert all(side % model.backbone.stride == 0 for side in named.recipe.sides)
