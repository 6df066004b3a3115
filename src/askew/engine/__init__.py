"""How clients' rounds are computed."""
