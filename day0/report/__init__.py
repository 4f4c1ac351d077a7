"""Analysis -> JSON, terminal text, Markdown, one HTML file and a recipe in YAML."""
