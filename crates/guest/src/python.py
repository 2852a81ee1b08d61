# What a Python program needs in the guest, a line each: the interpreter itself, the folders of its standard library, and the modules and
# packages outside of it that the scripts import. Scripts are read, not run.
import os
import sys
import sysconfig

SITES = ("site-packages", "dist-packages")
library = sorted({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")})


def in_library(path):
    inside = any(path.startswith(folder + os.sep) for folder in library)
    return inside and not any(site in path.split(os.sep) for site in SITES)


def named_as(script, path):
    """A path below the script's folder, from where the script's own name starts: the guest has another current folder."""
    folder = os.path.dirname(script) or os.curdir
    below = os.path.relpath(path, folder)
    if os.path.isabs(script) or below.startswith(os.pardir + os.sep):
        return path
    return os.path.normpath(os.path.join(folder, below))


def modules(script):
    try:
        from modulefinder import ModuleFinder
    except ImportError:
        return
    finder = ModuleFinder(path=[os.path.dirname(script) or os.curdir, *sys.path])
    try:
        finder.run_script(script)
    except Exception:
        # No Python, or a package without __init__.py, which modulefinder cannot read: what was found until then is wanted all the same.
        pass
    for name, module in finder.modules.items():
        path = module.__file__
        if "." in name or name == "__main__" or path is None or in_library(path):
            continue
        # A package has data, too, and modules that it imports by name.
        yield named_as(script, os.path.dirname(path) if module.__path__ else path)


print("interpreter", sys.executable, sep="\t")
for folder in library:
    print("library", folder, sep="\t")
for path in sorted({path for script in sys.argv[1:] for path in modules(script)}):
    print("module", path, sep="\t")
