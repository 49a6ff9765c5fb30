"""Routing without a model: from a request to the lane it belongs to, or to nothing where that cannot be told."""

from hansard.orchestration.route.evaluation import Evaluation as Evaluation
from hansard.orchestration.route.evaluation import Labelled as Labelled
from hansard.orchestration.route.evaluation import evaluate as evaluate
from hansard.orchestration.route.evaluation import parse_rows as parse_rows
from hansard.orchestration.route.router import Evidence as Evidence
from hansard.orchestration.route.router import Route as Route
from hansard.orchestration.route.router import Router as Router
from hansard.orchestration.route.router import recorded_route as recorded_route
