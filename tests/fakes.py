"""Stand-ins for tests of something else. None of them is ever a feature's only proof."""
