"""Analyses the names of a program before it is rewritten: which ones lead to tools and which are
awaited."""

import ast
import re

from .private import private

ast = private(ast)

_RUNS = {"run", "run_until_complete"}
_TELLERS = {"isawaitable", "iscoroutine", "isfuture"}
_COLLECTORS = {"gather", "wait", "wait_for", "as_completed", "create_task", "ensure_future", "shield", "run", "run_until_complete"}
_POOLS = {"ThreadPoolExecutor", "submit"}
STORES = {"append", "add", "insert", "put", "put_nowait", "appendleft", "setdefault"}

# For this session's programs: names that lead to tools, and functions that return calls.
_known = {}


def forget():
    """Discards what is known of earlier programs."""
    _known.clear()


def root_of(node):
    """Returns the name at the root of a chain of attributes and subscripts."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


_LEAVES = frozenset((ast.Name, ast.Constant, ast.Pass, ast.Break, ast.Continue, ast.Global, ast.Nonlocal, ast.alias, type(None)))


def _field_types(cls):
    """Returns the names of the types of a node class's fields, by field."""
    if hasattr(cls, "_field_types"):  # since Python 3.13; list[T] and T | None are unwrapped
        return {name: getattr(t, "__args__", (t,))[0].__name__ for name, t in cls._field_types.items()}
    # Before, the types are in the documentation: "Return(expr? value)".
    head, _, fields = (cls.__doc__ or "").partition("(")
    if head != cls.__name__:
        return {}  # an abstract class, or one without fields
    return {name: t for t, name in re.findall(r"(\w+)[*?]? (\w+)", fields)}


# Types of fields that hold no nodes, or only nodes without content.
_DULL = {"str", "int", "object", "identifier", "string", "constant", "expr_context", "operator", "unaryop", "boolop", "cmpop"}


def _inner(cls):
    """Returns the fields of a node class whose nodes need a visit. Annotations contain no awaits."""
    types = _field_types(cls)
    return tuple(name for name in cls._fields if name in types and types[name] not in _DULL and name != "annotation")


_FIELDS = {c: _inner(c) for c in vars(ast).values() if isinstance(c, type) and issubclass(c, ast.AST) and hasattr(c, "_fields") and c not in _LEAVES}


class Visitor:
    """Visits all nodes in order and replaces each by the result of its visit_CLASS method; faster
    than ast.NodeTransformer."""

    def __init__(self):
        self.methods = {getattr(ast, n[len("visit_") :]): getattr(self, n) for n in dir(self) if n.startswith("visit_")}

    def visit(self, node):
        method = self.methods.get(type(node))
        if method is not None:
            return method(node)
        return node if type(node) in _LEAVES else self.inside(node)

    def inside(self, node):
        methods = self.methods
        for field in _FIELDS[type(node)]:
            v = getattr(node, field)
            if type(v) is list:
                for i, x in enumerate(v):
                    if type(x) not in _LEAVES or type(x) in methods:
                        v[i] = self.visit(x)
            elif type(v) not in _LEAVES or type(v) in methods:
                setattr(node, field, self.visit(v))
        return node


def name_of(func):
    """Returns the name of the called function."""
    return func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""


def gets(func):
    """Reports whether func is a call of getattr."""
    return isinstance(func, ast.Call) and isinstance(func.func, ast.Name) and func.func.id == "getattr" and bool(func.args)


def _own_returns(node):
    """Yields the values that a function itself returns, not those of nested functions."""
    todo = list(node.body)
    while todo:
        n = todo.pop()
        if isinstance(n, ast.Return):
            yield n.value
        elif isinstance(n, ast.stmt) and not isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for field in ("body", "orelse", "finalbody", "handlers", "cases"):
                for x in getattr(n, field, ()):
                    todo.extend(x.body if isinstance(x, (ast.ExceptHandler, ast.match_case)) else [x])


class Facts(Visitor):
    """The facts about the names of a whole program."""

    def __init__(self, roots):
        super().__init__()
        self.tools = set(roots) | _known.setdefault("tools", set())  # names that lead to tools
        self.lazy = set()  # names that are awaited, gathered or stored for that purpose
        self.stored = set()  # names in displays or added to containers
        self.collects = False
        self.pools = False  # whether it makes calls in parallel with a thread pool
        self.modules = {"json"}
        # The program's functions that return calls.
        self.giving = _known.setdefault("giving", set()).copy()
        # Those whose calls are awaited at the call site.
        self.lending = _known.setdefault("lending", set()).copy()
        self.coroutines = _known.setdefault("coroutines", set()).copy()
        self.runs = set()  # names of asyncio.run
        self.awaited = set()  # names of functions whose results are awaited
        self.objects = False  # whether anything other than a call is awaited
        self.parameters = set()  # names of function parameters
        self.roots = set()  # root names of attribute chains that are called and awaited

    def handles(self):
        """Reports whether the program handles awaitables itself, so that it may need a call instead
        of its value."""
        return self.collects or self.pools or self.objects or not self.awaited <= self.coroutines | self.lending

    def awaits_passed(self):
        """Reports whether tools passed as arguments may be awaited by the receiving function."""
        return bool(self.roots & self.parameters or self.roots - self.tools - self.modules)

    def remember(self):
        """Keeps the facts for the next programs of the session."""
        _known.update(tools=self.tools, giving=self.giving, lending=self.lending, coroutines=self.coroutines)

    def is_tool(self, node):
        if not isinstance(node, ast.Call):
            return False
        f = node.func
        if gets(f):
            f = f.args[0]
        elif name_of(f) in self.giving:
            return True
        return root_of(f) in self.tools

    def names_tool(self, node):
        """Reports whether a node is a chain of names whose first leads to tools."""
        while isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.tools

    def visit_Import(self, node):
        for a in node.names:
            name = a.asname or a.name.partition(".")[0]
            if a.name.partition(".")[0] in ("tools", "servers"):
                self.tools.add(name)
            else:
                self.modules.add(name)
        return node

    def visit_ImportFrom(self, node):
        top = (node.module or "").partition(".")[0]
        for a in node.names:
            if top in ("tools", "servers") or top in self.tools:
                self.tools.add(a.asname or a.name)
            elif top == "asyncio" and a.name == "run":
                self.runs.add(a.asname or a.name)
            # A task that was only started isn't awaited.
            elif top != "asyncio" or a.name not in _COLLECTORS:
                self.coroutines.add(a.asname or a.name)
        return node

    def visit_Assign(self, node):
        if isinstance(node.value, (ast.Attribute, ast.Name, ast.Subscript)) and root_of(node.value) in self.tools:
            for t in node.targets:
                if isinstance(t, ast.Name) and t.id != root_of(node.value):
                    self.tools.add(t.id)
        return self.inside(node)

    def visit_Await(self, node):
        v = node.value
        if isinstance(v, ast.Name):
            self.lazy.add(v.id)
        if not isinstance(v, ast.Call):
            self.objects = True
        else:
            root = root_of(v.func)
            if not isinstance(v.func, ast.Name) or root in self.parameters:
                self.roots.add(root)
            if root not in self.tools and root not in self.modules:
                self.awaited.add(name_of(v.func))
        return self.inside(node)

    def visit_arguments(self, node):
        self.parameters.update(a.arg for a in node.posonlyargs + node.args + node.kwonlyargs)
        return self.inside(node)

    def visit_Call(self, node):
        name = name_of(node.func)
        if name in _COLLECTORS or name in _TELLERS:
            self.collects = self.collects or name not in _RUNS
            for a in node.args:
                self.lazy.update(n.id for n in ast.walk(a) if isinstance(n, ast.Name))
        elif name in _POOLS:
            self.pools = True
        elif name in STORES:
            self.stored.update(a.id for a in node.args if isinstance(a, ast.Name))
        return self.inside(node)

    def _display(self, node):
        for e in node.values if isinstance(node, ast.Dict) else node.elts:
            if isinstance(e, ast.Name):
                self.stored.add(e.id)
        return self.inside(node)

    visit_List = visit_Tuple = visit_Set = visit_Dict = _display

    def visit_AsyncFunctionDef(self, node):
        self.coroutines.add(node.name)
        return self.inside(node)

    def visit_FunctionDef(self, node):
        self.inside(node)
        if any(map(self.is_tool, _own_returns(node))) and not any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(node)):
            self.giving.add(node.name)
            if not node.decorator_list and node.name[:2] != "__":
                self.lending.add(node.name)
        else:
            self.lending.discard(node.name)
        return node

    def take(self, tree):
        """Collects the facts of a whole program."""
        self.visit(tree)
        if self.lending:  # tools passed as arguments are called by code that expects a value
            called = {id(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
            self.lending -= {name_of(n) for n in ast.walk(tree) if isinstance(n, (ast.Name, ast.Attribute)) and id(n) not in called}

    def keeps(self, name):
        """Reports whether a call assigned to that name must stay a call."""
        return name in self.lazy or self.collects and name in self.stored
