"""The mypy plugin. It reads mypy's trees and types, imports no torch, and is silent about what it does not know."""
