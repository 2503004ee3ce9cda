"""The site: `make docs` builds it from these pages and the docstrings into out/site."""

from __future__ import annotations

from typing import Any

import torchfru

project = "torchfru"
author = "The torchfru maintainers"
copyright = f"2026, {author}. MIT licence"
version = release = torchfru.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
nitpicky = True  # a reference that leads nowhere is a warning, and `make docs` fails at warnings
nitpick_ignore_regex = [(r"py:.*", r"(torch|nn|np|numpy)\..*")]  # other projects have other sites
show_warning_types = True
smartquotes = False  # "fourier" is code
highlight_language = "none"  # of blocks that do not name one: formulas and commands

# Pages: Markdown that also reads well without this site. A link to a file of the repository that
# is no page, such as a record, becomes a copy of that file in the site.
myst_heading_anchors = 3
templates_path = ["_templates"]

# Docstrings
autodoc_typehints = "none"  # signatures stay readable; the docstrings say what is expected
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 90
napoleon_numpy_docstring = False
napoleon_use_param = napoleon_attr_annotations = False
napoleon_custom_sections = ["Shape"]

# Everything that a reader's browser loads is in the site itself.
html_theme = "pydata_sphinx_theme"
html_title = "torchfru"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = False
html_sidebars = {"**": ["pages.html"]}
html_theme_options = {
    "navbar_center": [],
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "github-dark",
}


def find_by_last_name(app: Any, env: Any, node: Any, content: Any) -> Any:
    """Resolve `FRU` to torchfru.FRU: docstrings name a class as their own file imports it."""
    domain = env.get_domain("py")
    names = [name for name, entry in domain.objects.items() if not entry.aliased]
    found = [name for name in names if name.endswith(f".{node['reftarget']}")]
    if len(found) != 1:
        return None  # a warning
    place = (env, node["refdoc"], app.builder, node["reftype"], found[0])
    return domain.resolve_xref(*place, node, content)


def setup(app: Any) -> None:
    app.connect("missing-reference", find_by_last_name)
