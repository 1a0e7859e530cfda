"""The Kubernetes objects of projects and domains."""
