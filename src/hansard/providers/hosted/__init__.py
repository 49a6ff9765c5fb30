"""Models that are asked over HTTP: what every vendor's server has in common."""
