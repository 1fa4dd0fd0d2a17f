"""Small releases written exactly as the official ones are, for tests to read back."""

import csv
import json
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import savemat

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


def write_picture(path: Path, size: tuple[int, int], seed: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def spair_annotation(name: str = "000001-one-two:cat", **changes: object) -> dict:
    return {
        "pair_id": 1,
        "filename": name,
        "src_imname": "one.jpg",
        "trg_imname": "two.jpg",
        "src_imsize": [60, 40, 3],
        "trg_imsize": [50, 80, 3],
        "src_bndbox": [1, 2, 60, 40],
        "trg_bndbox": [5, 10, 45, 70],
        "category": "cat",
        "src_pose": "Left",
        "trg_pose": "Unspecified",
        "src_kps": [[10, 11], [20, 21], [30, 31]],
        "trg_kps": [[12, 13], [22, 23], [32, 33]],
        "kps_ids": ["0", "7", "11"],
        "mirror": 0,
        "viewpoint_variation": 1,
        "scale_variation": 2,
        "truncation": 3,
        "occlusion": 0,
        **changes,
    }


def write_spair(root: Path, annotations: list[dict] | None = None, colon: str = ":", layout: str = "large") -> Path:
    folder = root / "SPair-71k"
    annotations = annotations if annotations is not None else [spair_annotation()]
    for number, content in enumerate(annotations):
        for side in ("src", "trg"):
            path = folder / "JPEGImages" / content["category"] / content[f"{side}_imname"]
            write_picture(path, tuple(content[f"{side}_imsize"][:2]), number)
        path = folder / "PairAnnotation" / "test" / f"{content['filename'].replace(':', colon)}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    listing = folder / "Layout" / layout / "test.txt"
    listing.parent.mkdir(parents=True, exist_ok=True)
    listing.write_text("".join(f"{content['filename']}\n" for content in annotations))
    return folder


def write_pf_pascal(root: Path) -> Path:
    folder = root / "PF-PASCAL"
    for number, (name, size) in enumerate((("2008_000001", (300, 200)), ("2008_000002", (225, 300)))):
        write_picture(folder / "JPEGImages" / f"{name}.jpg", size, number)
        keypoints = np.array([[10.5, 20.0], [np.nan, np.nan] if number else [50.0, 60.0], [100.0, 30.25]])
        path = folder / "Annotations" / "cat" / f"{name}.mat"
        path.parent.mkdir(parents=True, exist_ok=True)
        savemat(path, {"kps": keypoints + number, "bbox": np.array([[5.0, 6.0, 155.0, 106.0]])})
    images = [f"PF-dataset-PASCAL/JPEGImages/2008_00000{number}.jpg" for number in (1, 2)]
    rows = [[*images, "8", "0"], [*images, "8", "1"]]
    _write_csv(folder / "trn_pairs.csv", ["source_image", "target_image", "class", "flip"], rows)
    _write_csv(folder / "val_pairs.csv", ["source_image", "target_image", "class", "flip"], rows[:1])
    points = ["1.5;2.5", "3.5;4.5", "5.5;6.5", "7.5;8.5"]
    header = ["source_image", "target_image", "class", "XA", "YA", "XB", "YB"]
    _write_csv(folder / "test_pairs.csv", header, [[*images, "8", *points]])
    return folder


def write_pf_willow(root: Path) -> Path:
    folder = root / "PF-WILLOW"
    for number, name in enumerate(("060_0001", "060_0002")):
        write_picture(folder / "car(G)" / f"{name}.png", (120, 90), number)
    images = [f"PF-dataset/car(G)/060_000{number}.png" for number in (1, 2)]
    axes = [f"{axis}{side}{number}" for side in "AB" for axis in "XY" for number in range(1, 11)]
    numbers = [str(value) for start in (0.5, 20.5, 40.5, 60.5) for value in np.arange(10) + start]
    _write_csv(folder / "test_pairs.csv", ["imageA", "imageB", *axes], [[*images, *numbers]])
    return folder


def write_voc(root: Path, folder: str = "VOC2011-keypoints", photos: int = 40) -> Path:
    entries = []
    for number in range(photos):
        category = ("cat", "dog")[number % 2]
        suffix = "_1" if folder.endswith("instances") else ""
        name = f"{category}/2008_{number:06d}{suffix}.jpg"
        write_picture(root / folder / "images" / name, (30, 20), number)
        keypoints = {"L_Eye": [5, 6, 1], "R_Eye": [9, 6, 1], "Nose": [7, 8, 1], "Tail": [25, 10, number % 3 // 2]}
        if number == 4:
            keypoints["Nose"] = [-3, 8, 1]
        entries.append(
            {"image": name, "category": category, "width": 30, "height": 20, "bbox": [1, 2, 29, 19], "kps": keypoints}
        )
    path = root / folder / "annotations.json"
    path.write_text(json.dumps(entries))
    return root / folder


def coco_animal(number: int, category: int) -> tuple[dict, dict]:
    keypoints = [value for k in range(17) for value in (3 + k, 4 + k, 2 if k != number % 17 else 0)]
    image = {"id": number, "file_name": f"{number:012d}.jpg", "width": 40, "height": 30}
    annotation = {"id": number, "image_id": number, "category_id": category, "bbox": [2, 3, 30, 20]}
    return image, {**annotation, "keypoints": keypoints, "num_keypoints": 16}


SPECIES = {1: ("antelope", "Bovidae"), 2: ("cow", "Bovidae"), 3: ("cat", "Felidae")}


def write_ap10k_coco(root: Path) -> Path:
    folder = root / "ap-10k"
    animals = [coco_animal(number, number % 3 + 1) for number in range(12)]
    animals.append((animals[0][0], {**animals[0][1], "id": 99}))
    for image, _ in animals:
        write_picture(folder / "data" / image["file_name"], (40, 30), image["id"])
    content = {
        "images": [image for image, _ in animals[:-1]],
        "annotations": [annotation for _, annotation in animals],
        "categories": [{"id": k, "name": name, "supercategory": family} for k, (name, family) in SPECIES.items()],
    }
    path = folder / "annotations" / "ap10k-test-split1.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content))
    return folder


def write_ap10k_prepared(root: Path) -> Path:
    folder = root / "ap-10k"
    stored = {}
    for number in range(3):
        image, annotation = coco_animal(number, number + 1)
        species, family = SPECIES[number + 1]
        path = folder / "ImageAnnotation" / family / species / f"{number:012d}.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({**annotation, **image, "name": species, "supercategory": family}))
        write_picture(folder / "JPEGImages" / family / species / f"{number:012d}.jpg", (40, 30), number)
        stored[number] = f"/elsewhere/data/ap-10k/ImageAnnotation/{family}/{species}/{number:012d}.json"
    for split, first, second in (("test_cross_species", 0, 1), ("test_cross_family", 1, 2)):
        category = "Bovidae" if split.endswith("species") else "all"
        path = folder / "PairAnnotation" / split / f"{first:012d}-{second:012d}:{category}.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"src_json_path": stored[first], "trg_json_path": stored[second]}))
    return folder


def _write_csv(path: Path, header: list[str], rows: list[list[str]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
