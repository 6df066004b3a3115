"""The papers' experiments: what each table and figure needs, its numbers beside ours, whether its claims hold."""
