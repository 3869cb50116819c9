"""What pyproject.toml cannot say: the templates at the root travel in the wheel as campaign/templates."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["campaign*"]), "campaign.templates"],
    package_dir={"campaign.templates": "templates"},
    package_data={"campaign.templates": ["*.j2", "*.md"], "campaign": ["**/*.toml"]},
)
