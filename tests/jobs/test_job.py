"""Running a job: what is done, what is resumed and what is refused, with work that needs no model."""

import random
import sys
from dataclasses import dataclass, replace

import pytest

from mambamatcher.errors import BackendError, InputError, MissingExtraError
from mambamatcher.jobs.engines import LOCAL, LocalEngine, make_engine
from mambamatcher.jobs.job import Job, cut, run
from mambamatcher.jobs.ray_engine import RayEngine


@dataclass(frozen=True)
class Number:
    name: str


def square(inputs):
    for each in inputs:
        yield {"number": each.name, "square": int(each.name) ** 2}


def numbers(count):
    return [Number(str(number)) for number in range(count)]


def squaring(folder, count, header=None, **options):
    job = Job(
        label="numbers",
        inputs=numbers(count),
        header=header or {"model": "m"},
        journal=folder / "results.jsonl",
        key="number",
        work=square,
        finish=lambda results: [result["square"] for result in results],
    )
    return replace(job, **options)


class Scrambled(LocalEngine):
    """Does shards in any order, as workers do, and is killed after `limit` of them."""

    def __init__(self, seed, limit=None):
        self.seed, self.limit = seed, limit

    def run(self, work, shards):
        order = random.Random(self.seed).sample(shards, len(shards))
        for shard in order[: self.limit]:
            yield from work(shard)
        if self.limit is not None:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("count", "shards"), [(1, 1), (128, 128), (129, 65), (500, 125), (100_000, 128), (200_000, 200)]
)
def test_shards_hold_every_input_once_in_order_and_no_more_than_a_thousand(count, shards):
    done = cut(range(count), 1000)
    assert len(done) == shards
    assert [each for shard in done for each in shard] == list(range(count))
    assert max(map(len, done)) <= 1000


def test_results_are_the_same_bytes_whatever_the_order_and_however_often_it_was_killed(tmp_path):
    expected = [number**2 for number in range(300)]
    assert run(squaring(tmp_path / "whole", 300), LOCAL) == expected
    for seed in range(5):
        job = squaring(tmp_path / str(seed), 300)
        for limit in (1, 20, 0):
            with pytest.raises(KeyboardInterrupt):
                run(job, Scrambled(seed, limit))
        assert run(job, Scrambled(seed)) == expected
        assert job.journal.read_bytes() == (tmp_path / "whole" / "results.jsonl").read_bytes()


def test_only_what_is_missing_is_done(tmp_path):
    run(squaring(tmp_path, 20), LOCAL)
    done = []
    job = squaring(tmp_path, 30, work=lambda inputs: done.extend(inputs) or square(inputs))
    assert run(job, LOCAL) == [number**2 for number in range(30)]
    assert done == numbers(30)[20:]
    assert run(squaring(tmp_path, 10), LOCAL) == [number**2 for number in range(10)]  # and the others stay
    done.clear()
    run(job, LOCAL)
    assert not done


def test_results_that_no_longer_count_are_computed_again(tmp_path):
    run(squaring(tmp_path, 5), LOCAL)
    whole = (tmp_path / "results.jsonl").read_bytes()
    job = squaring(tmp_path, 5, check=lambda results: [each for each in results if each["number"] != "3"])
    assert run(job, LOCAL) == [0, 1, 4, 9, 16]
    assert (tmp_path / "results.jsonl").read_bytes() == whole


def test_another_run_is_refused_until_overwriting_is_asked_for(tmp_path):
    run(squaring(tmp_path, 10), LOCAL)
    with pytest.raises(InputError, match="model was 'm', now 'other'"):
        run(squaring(tmp_path, 10, {"model": "other"}), LOCAL)
    assert run(squaring(tmp_path, 3, {"model": "other"}), LOCAL, overwrite=True) == [0, 1, 4]


def test_products_without_a_journal_are_the_users_own(tmp_path):
    product = tmp_path / "sum.txt"
    product.write_text("mine")

    def finish(results):
        product.write_text(str(sum(each["square"] for each in results)))

    job = squaring(tmp_path, 4, products=[product], finish=finish)
    with pytest.raises(InputError, match=r"sum\.txt exists already"):
        run(job, LOCAL)
    assert [path.name for path in tmp_path.iterdir()] == ["sum.txt"]
    with pytest.raises(KeyboardInterrupt):
        run(job, Scrambled(0, 2), overwrite=True)
    assert not product.exists()  # it would be taken for the product of this run
    run(job, LOCAL)
    assert product.read_text() == "14"
    run(job, LOCAL)


def test_inputs_that_cannot_be_told_apart_are_refused(tmp_path):
    with pytest.raises(InputError, match="two numbers have the same name, 1"):
        run(squaring(tmp_path, 0, inputs=[Number("1"), Number("2"), Number("1")]), LOCAL)


def test_an_engine_is_made_as_asked_for_or_refused_in_one_sentence(monkeypatch):
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "ray", None)
        with pytest.raises(MissingExtraError, match=r"mambamatcher\[scale\]"):
            make_engine("ray", None, None)
    with pytest.raises(InputError, match="--engine ray"):
        make_engine("local", None, 2)
    with pytest.raises(InputError, match="HOST:PORT"):
        make_engine("ray", "ray://head:10001", None)
    pytest.importorskip("ray", reason="the scale extra is not installed")
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")  # as Ray's jobs have it
    assert make_engine("ray", None, None) == RayEngine("head:6379")
    assert make_engine("ray", "local", 2) == RayEngine("local", 2)
    assert make_engine("local", None, None) == LocalEngine()
    with pytest.raises(InputError, match="give --device cuda, not cuda:1"):
        make_engine("ray", None, None, "cuda:1")


@pytest.mark.parametrize(
    ("engine", "resources", "shards", "size"),
    [
        (RayEngine(), {"CPU": 6.0, "GPU": 2.0}, 100, (6, 0)),
        (RayEngine(workers=3), {"CPU": 6.0}, 2, (2, 0)),
        (RayEngine(device="cuda"), {"CPU": 6.0, "GPU": 2.0}, 100, (2, 1)),
        (RayEngine(device="cuda"), {"CPU": 6.0, "GPU": 4.0}, 3, (3, 1)),
        (RayEngine(workers=16, device="cuda"), {"CPU": 32.0, "GPU": 4.0}, 100, (16, 0.25)),
        (RayEngine(workers=7, device="cuda"), {"CPU": 32.0, "GPU": 4.0}, 100, (7, 0.5)),
        (RayEngine(workers=3, device="cuda"), {"CPU": 32.0, "GPU": 1.0}, 100, (3, 0.3333)),
    ],
)
def test_workers_are_as_many_as_cores_or_gpus_or_as_asked_for(engine, resources, shards, size):
    assert engine._size(resources, shards) == size


def test_a_cluster_without_gpus_is_said_so():
    with pytest.raises(BackendError, match="has no GPU"):
        RayEngine(device="cuda")._size({"CPU": 8.0}, 10)


@pytest.mark.parametrize(
    ("address", "problem", "said"),
    [
        (None, Exception("The node timed out.\nSee the logs"), "cannot start Ray on this machine: The node timed out."),
        (
            "auto",
            ConnectionError("no cluster"),
            "cannot use the Ray cluster at auto: no cluster; if it has a token, set RAY_AUTH_MODE=token",
        ),
    ],
)
def test_a_ray_that_does_not_start_is_one_sentence(tmp_path, monkeypatch, address, problem, said):
    ray = pytest.importorskip("ray", reason="the scale extra is not installed")

    def init(**_):
        raise problem

    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(BackendError) as raised:
        run(squaring(tmp_path, 1), RayEngine(address))
    assert str(raised.value) == said
