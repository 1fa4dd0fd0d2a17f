import threading

import pytest
import torch
from torch import nn

from mambamatcher.cache import DiskCache, MemoryCache, digest, stamp
from mambamatcher.errors import InputError


def floats(count: int) -> torch.Tensor:
    return torch.arange(count, dtype=torch.float32)


def test_the_least_recently_used_tensors_go_when_the_bytes_run_out():
    cache = MemoryCache(limit=100)
    cache.put("a", floats(10))
    cache.put("b", floats(10))
    assert cache.get("a") is not None  # now b is the older one
    cache.put("c", floats(10))
    assert cache.get("b") is None
    assert cache.get("a") is not None
    cache.put("too large", floats(26))
    assert cache.get("too large") is None
    cache.put("a", floats(15))  # replaces, and counts once
    assert cache.get("c") is not None
    assert cache.get("a").numel() == 15
    cache.clear()
    assert cache.get("a") is cache.get("c") is None


def test_many_threads_never_exceed_the_limit():
    cache = MemoryCache(limit=400)

    def work(start: int) -> None:
        for i in range(300):
            cache.put((start + i) % 17, floats(i % 20 + 1))
            cache.get(i % 17)

    threads = [threading.Thread(target=work, args=(start,)) for start in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    held = [cache.get(key) for key in range(17)]
    assert 0 < sum(each.nbytes for each in held if each is not None) <= 400


def test_a_tensor_comes_back_from_disk_as_it_was(tmp_path):
    tensor = torch.randn(2, 3, 4).permute(2, 0, 1)
    DiskCache(tmp_path / "new" / "folder").put("one", tensor)
    assert torch.equal(DiskCache(tmp_path / "new" / "folder").get("one"), tensor)
    assert DiskCache(tmp_path).get("one") is None


@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied", "a folder"])
def test_a_damaged_file_is_not_trusted_and_can_be_replaced(tmp_path, damage, caplog):
    cache = DiskCache(tmp_path)
    cache.put("one", floats(50))
    path = next(tmp_path.iterdir())
    content = bytearray(path.read_bytes())
    if damage == "cut":
        path.write_bytes(content[:-20])
    elif damage == "flipped":
        content[-10] ^= 1
        path.write_bytes(content)
    elif damage == "emptied":
        path.write_bytes(b"")
    else:
        path.unlink()
        path.mkdir()
    assert cache.get("one") is None
    cache.put("one", floats(50))
    if damage == "a folder":
        assert "cannot keep" in caplog.text
    else:
        assert "damaged" in caplog.text
        assert torch.equal(cache.get("one"), floats(50))


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot use"):
        DiskCache(tmp_path / "file" / "folder")


def test_digests_tell_values_shapes_and_types_apart():
    different = [floats(6), floats(6).view(2, 3), floats(6).int(), floats(6) + 1, floats(6).double()]
    assert len({digest(each) for each in different}) == len(different)
    assert digest(floats(6).view(2, 3).T) == digest(floats(6).view(2, 3).T.contiguous())


def test_a_stamp_changes_with_every_change_of_a_parameter_or_buffer():
    module = nn.BatchNorm2d(3)
    seen = [stamp(module)]
    assert seen[0] == stamp(module)
    with torch.no_grad():
        module.weight.add_(1)
    seen.append(stamp(module))
    module.running_mean.zero_()
    seen.append(stamp(module))
    module.weight.data = torch.ones(3)
    seen.append(stamp(module))
    assert len(set(seen)) == 4
