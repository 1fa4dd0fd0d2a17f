"""Files: images, points in JSON, CSV and COCO, drawings, and atomic writes."""
