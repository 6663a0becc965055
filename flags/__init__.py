"""Decides, for every answer, which frame sampler serves it. The only package that imports
OpenFeature."""
