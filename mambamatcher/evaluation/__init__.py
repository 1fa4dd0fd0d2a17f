"""Evaluation in three steps: predict once and save, score under any protocol, report."""
