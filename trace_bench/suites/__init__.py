"""Benchmark families: one package each, and what they share."""
