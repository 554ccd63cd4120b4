"""The mypy plugin. It reads mypy's trees and types, doesn't import torch, and reports only certain errors."""
