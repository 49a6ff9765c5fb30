"""From a request to an answer that can be checked: route, plan, work, judge, escalate, answer."""
