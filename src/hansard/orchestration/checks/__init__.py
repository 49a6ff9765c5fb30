"""What can be said of an answer without asking a model: does it speak of the request, is it concise, does its code parse.

Pure and deterministic. These checks are recorded and never block; a person or a judge model decides what a flag means.
"""
