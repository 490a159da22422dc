"""What the product relies on in an API server, asked of the fake one and of the real one alike."""
