"""DeepSeek-V4's attention: window and pools in one softmax. See README.md."""
