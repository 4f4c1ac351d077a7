"""The package that teaches day0 a model: operators, mechanisms, words, tests, an entry point."""

from day0.analysis.analyze import Analysis
from day0.analysis.checklist import Checklist
from day0.analysis.worklist import WorkList
from day0.scaffold.files import MARKER, marker
from day0.scaffold.operators import operator_files
from day0.scaffold.render import answers, render


def package_files(analysis: Analysis, work: WorkList, checklist: Checklist) -> dict[str, str]:
    """Path -> text of every file."""
    package = f"day0_{work.name}"
    unknown = [operator for operator in work.operators if not operator.family]
    tensors = {
        operator.stem: {
            tensor.name: (f"{operator.module}.{tensor.tail}", tensor.dims)
            for tensor in operator.weights
        }
        for operator in unknown
    }
    values = {
        "package": package,
        "project": package.replace("_", "-"),
        "name": work.name,
        "model": analysis.id,
        "recipe": analysis.recipe.name,
        "operators": work.operators,
        "blocks": work.blocks,
        "left": work.left,
        "unread": analysis.unread_keys,
        "tensors": tensors,
        "num_tensors": sum(len(table) for table in tensors.values()),
        "assumed": analysis.assumed,
        "width": analysis.spec.shape.hidden_size,
        **answers(checklist),
    }
    files = {
        MARKER: marker(package, "day0"),
        "pyproject.toml": render("package/pyproject.toml", **values),
        "README.md": render("package/README.md", **values),
        "checklist.md": render("package/checklist.md", **values),
        "facts.yaml": render("package/facts.yaml", **values),
        "plugin.py": render("package/plugin_root.py", **values),
        "tests/conftest.py": render("package/conftest.py", **values),
        f"{package}/__init__.py": render("package/init.py", **values),
        f"{package}/plugin.py": render("package/plugin.py", **values),
        f"{package}/words.py": render("package/words.py", **values),
        f"{package}/ops/__init__.py": '"""One folder an operator."""\n',
        "tests/test_operators.py": render("package/test_operators.py", **values),
    }
    if work.blocks:
        files["tests/test_mechanisms.py"] = render("package/test_mechanisms.py", **values)
        files[f"{package}/mechanisms/__init__.py"] = '"""How layers are read and flow."""\n'
    for block in work.blocks:
        path = f"{package}/mechanisms/{block.stem}.py"
        files[path] = render("package/mechanism.py", **values, block=block)
    for operator in work.operators:
        for path, text in operator_files(operator, work, analysis, package).items():
            files[f"{package}/{path}"] = text
    return files
