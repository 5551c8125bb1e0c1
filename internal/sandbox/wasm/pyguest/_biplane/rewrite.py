"""Programs as they are compiled.

Calls of tools are awaited where their value is used as a value, and where a function can't await, waited for. Where it
is not certain (an argument of the program's own functions, an element of a list, a name that goes into gather), they
are left alone: a ToolCall that nobody awaited does as its value does, when it is used. What is wrapped by mistake does no harm:
helpers give anything but a ToolCall back as it is.

A return outside functions ends the program with a value, the last expression is the value otherwise.
"""

import ast
import builtins
import inspect
import sys

from . import calls, errors
from .private import private

ast, inspect = private(ast), private(inspect)

_AWAIT, _SETTLE, _RETURN, RESULT = "__biplane_await__", "__biplane_settle__", "__biplane_return__", "__biplane_result__"
_COLLECTORS = {"gather", "wait", "wait_for", "as_completed", "create_task", "ensure_future", "shield", "run", "run_until_complete"}
_STORES = {"append", "add", "insert", "put", "put_nowait", "appendleft", "setdefault"}
_EATERS = {"extend", "update", "join"}
_LAZY_MODULES = {"asyncio", "contextlib", "functools", "inspect"}
_CONSUMERS = set(
    "len sorted list tuple set dict frozenset print str repr sum max min enumerate zip any all isinstance reversed iter next int float bool bytes format round abs type hash".split()
)


class _Ready:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __await__(self):
        return self.value
        yield


def _awaitable(x):
    return x if isinstance(x, calls.ToolCall) else _Ready(x)


def _any_awaitable(x):
    return x if inspect.isawaitable(x) else _Ready(x)


def install():
    builtins.__dict__[_AWAIT] = _awaitable
    builtins.__dict__[_AWAIT + "any"] = _any_awaitable
    builtins.__dict__[_SETTLE] = calls.settled
    builtins.__dict__[_RETURN] = errors.Return


def _root(node):
    """The name that a chain of attributes and keys begins with."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


_LEAVES = frozenset((ast.Name, ast.Constant, ast.Pass, ast.Break, ast.Continue, ast.Global, ast.Nonlocal, ast.alias, type(None)))


def _inner(cls):
    """The fields of a class of nodes in which there are nodes worth a visit."""
    dull = (str, int, object, ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
    names = []
    for name, t in cls._field_types.items():
        t = getattr(t, "__args__", (t,))[0]  # of list[T] and T | None
        if t not in dull:
            names.append(name)
    return tuple(names)


_FIELDS = {c: _inner(c) for c in vars(ast).values() if isinstance(c, type) and issubclass(c, ast.AST) and hasattr(c, "_field_types") and c not in _LEAVES}


class _Visitor:
    """Visits all nodes in their order, and puts what a method visit_CLASS gives in a node's place; faster than ast's own."""

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


class _Facts(_Visitor):
    """What the whole program says about its names."""

    def __init__(self, roots):
        super().__init__()
        self.tools = set(roots)  # names through which tools are called
        self.lazy = set()  # names that are awaited, gathered or kept for it
        self.stored = set()  # names that are in displays, or put into containers
        self.collects = False
        self.modules = {"json"}
        self.giving = set()  # the program's functions that return calls
        self.coroutines = set()
        self.runs = set()  # names for asyncio.run

    def is_tool(self, node):
        if not isinstance(node, ast.Call):
            return False
        if isinstance(node.func, ast.Name) and node.func.id in self.giving:
            return True
        root = _root(node.func)
        return root in self.tools

    def visit_Import(self, node):
        for a in node.names:
            name = a.asname or a.name.partition(".")[0]
            if a.name.partition(".")[0] == "tools":
                self.tools.add(name)
            else:
                self.modules.add(name)
        return node

    def visit_ImportFrom(self, node):
        top = (node.module or "").partition(".")[0]
        for a in node.names:
            if top == "tools" or top in self.tools:
                self.tools.add(a.asname or a.name)
            elif top == "asyncio" and a.name == "run":
                self.runs.add(a.asname or a.name)
        return node

    def visit_Assign(self, node):
        if isinstance(node.value, (ast.Attribute, ast.Name, ast.Subscript)) and _root(node.value) in self.tools:
            for t in node.targets:
                if isinstance(t, ast.Name) and t.id != _root(node.value):
                    self.tools.add(t.id)
        return self.inside(node)

    def visit_Await(self, node):
        if isinstance(node.value, ast.Name):
            self.lazy.add(node.value.id)
        return self.inside(node)

    def visit_Call(self, node):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
        if name in _COLLECTORS:
            self.collects = self.collects or name not in ("run", "run_until_complete")
            for a in node.args:
                self.lazy.update(n.id for n in ast.walk(a) if isinstance(n, ast.Name))
        elif name in _STORES:
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
        if any(isinstance(n, ast.Return) and self.is_tool(n.value) for n in ast.walk(node)):
            self.giving.add(node.name)
        return node

    def keeps(self, name):
        """Whether a call that gets that name is to stay a call."""
        return name in self.lazy or self.collects and name in self.stored


_POSITIONS = {
    ast.Attribute: ("value",),
    ast.Subscript: ("value", "slice"),
    ast.Slice: ("lower", "upper", "step"),
    ast.Compare: ("left", "comparators"),
    ast.BinOp: ("left", "right"),
    ast.UnaryOp: ("operand",),
    ast.BoolOp: ("values",),
    ast.IfExp: ("test",),
    ast.FormattedValue: ("value",),
    ast.For: ("iter",),
    ast.If: ("test",),
    ast.While: ("test",),
    ast.Assert: ("test",),
    ast.Match: ("subject",),
    ast.Expr: ("value",),
    ast.Starred: ("value",),
    ast.AugAssign: ("value",),
    ast.comprehension: ("ifs",),
}


class _Rewriter(_Visitor):
    def __init__(self, facts, can_await):
        super().__init__()
        self.facts = facts
        self.can_await = can_await
        self.top = can_await
        self.returns = False

    def wrap(self, node, helper=_AWAIT):
        """node, awaited or waited for, where it is a call of a tool."""
        if type(node) is not ast.Call or not self.facts.is_tool(node):
            return node
        return self.waited(node, helper)

    def waited(self, node, helper=_AWAIT):
        name = helper if self.can_await else _SETTLE
        call = ast.copy_location(ast.Call(ast.copy_location(ast.Name(name, ast.Load()), node), [node], []), node)
        return ast.copy_location(ast.Await(call), node) if self.can_await else call

    def inside(self, node):
        super().inside(node)
        for field in _POSITIONS.get(type(node), ()):
            v = getattr(node, field)
            if isinstance(v, list):
                setattr(node, field, [self.wrap(x) for x in v])
            elif v is not None:
                setattr(node, field, self.wrap(v))
        return node

    def visit_Await(self, node):
        v = node.value
        if isinstance(v, ast.Call):  # what is awaited needs no help, but what is inside it may
            v.func = self.visit(v.func)
            self.arguments(v)
        else:
            node.value = self.visit(v)
        return node

    def arguments(self, node):
        eats = self.facts.is_tool(node) or self.consumes(node.func)
        node.args = [self.wrap(a) if eats else a for a in map(self.visit, node.args)]
        for k in node.keywords:
            k.value = self.visit(k.value)
            if eats:
                k.value = self.wrap(k.value)

    def consumes(self, func):
        if isinstance(func, ast.Name):
            return func.id in _CONSUMERS
        if not isinstance(func, ast.Attribute):
            return False
        if func.attr in _EATERS or isinstance(func.value, (ast.Constant, ast.JoinedStr)):
            return True
        root = _root(func)
        return root in self.facts.modules and root not in _LAZY_MODULES

    def visit_Call(self, node):
        f = node.func
        runs = isinstance(f, ast.Attribute) and (f.attr == "run_until_complete" or f.attr == "run" and isinstance(f.value, ast.Name) and f.value.id == "asyncio")
        runs = runs or isinstance(f, ast.Name) and f.id in self.facts.runs
        if runs and self.can_await and len(node.args) == 1:
            return self.waited(self.visit(node.args[0]), _AWAIT + "any")
        node.func = self.visit(f)
        self.arguments(node)
        return node

    def visit_Assign(self, node):
        self.inside(node)
        if not any(isinstance(n, ast.Name) and self.facts.keeps(n.id) for t in node.targets for n in ast.walk(t)):
            node.value = self.wrap(node.value)
        return node

    def visit_AnnAssign(self, node):
        self.inside(node)
        if node.value is not None and not (isinstance(node.target, ast.Name) and self.facts.keeps(node.target.id)):
            node.value = self.wrap(node.value)
        return node

    visit_NamedExpr = visit_AnnAssign

    def visit_Expr(self, node):
        self.inside(node)
        v = node.value
        if self.can_await and isinstance(v, ast.Call) and isinstance(v.func, ast.Name) and v.func.id in self.facts.coroutines:
            node.value = self.waited(v, _AWAIT + "any")  # a coroutine that nobody could await any more
        return node

    def visit_Return(self, node):
        if node.value is not None:
            node.value = self.visit(node.value)
            if self.can_await:
                node.value = self.wrap(node.value)
        if not self.top:
            return node
        self.returns = True
        value = [] if node.value is None else [node.value]
        call = ast.Call(ast.Name(_RETURN, ast.Load()), value, [])
        return ast.fix_missing_locations(ast.copy_location(ast.Raise(call, None), node))

    def visit_Try(self, node):
        before, self.returns = self.returns, False
        self.inside(node)
        if self.top and self.returns and any(h.type is None or isinstance(h.type, ast.Name) and h.type.id == "BaseException" for h in node.handlers):
            h = ast.ExceptHandler(ast.Name(_RETURN, ast.Load()), None, [ast.Raise(None, None)])
            node.handlers.insert(0, ast.fix_missing_locations(ast.copy_location(h, node)))
        self.returns = self.returns or before
        return node

    def scope(self, node, can_await):
        saved = self.can_await, self.top
        self.can_await, self.top = can_await, False
        super().inside(node)
        self.can_await, self.top = saved
        return node

    def function(self, node, can_await):
        """A function: what is outside its body belongs to the scope around it."""
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.args = self.visit(node.args)
        saved = self.can_await, self.top
        self.can_await, self.top = can_await, False
        node.body = [self.visit(s) for s in node.body]
        self.can_await, self.top = saved
        return node

    def visit_FunctionDef(self, node):
        return self.function(node, False)

    def visit_AsyncFunctionDef(self, node):
        return self.function(node, True)

    def visit_Lambda(self, node):
        return self.scope(node, False)

    def visit_ClassDef(self, node):
        return self.scope(node, False)

    def visit_GeneratorExp(self, node):
        first = node.generators[0]
        outer = self.wrap(self.visit(first.iter))
        first.iter = ast.copy_location(ast.Constant(None), outer)
        self.scope(node, False)
        self.iterations(node.generators[1:], False)
        first.iter = outer
        return node

    def iterations(self, generators, can_await):
        saved, self.can_await = self.can_await, can_await
        for g in generators:
            g.iter = self.wrap(g.iter)
        self.can_await = saved

    def comprehension(self, node):
        self.inside(node)
        self.iterations(node.generators, self.can_await)
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = comprehension


def _tail(body):
    """Makes the last expression of a program, or of the block that ends it, its value. Reports whether there is one."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.Expr):
        v = last.value
        if isinstance(v, ast.Call) and isinstance(v.func, ast.Name) and v.func.id == "print":
            return False
        body[-1] = ast.copy_location(ast.Assign([ast.copy_location(ast.Name(RESULT, ast.Store()), last)], v), last)
        return True
    if isinstance(last, ast.If):
        a, b = _tail(last.body), _tail(last.orelse)
        return a or b
    if isinstance(last, (ast.With, ast.AsyncWith)):
        return _tail(last.body)
    if isinstance(last, ast.Try):
        found = _tail(last.orelse or last.body)
        for h in last.handlers:
            found = _tail(h.body) or found
        return found
    if isinstance(last, ast.Match):
        return any([_tail(c.body) for c in last.cases])
    return False


def _entry(tree):
    """The name of the function main or run that a program defines and never mentions again, and that needs no arguments."""
    for name in ("main", "run"):
        for s in tree.body:
            if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef)) and s.name == name:
                a = s.args
                needs = len(a.posonlyargs) + len(a.args) > len(a.defaults) or any(d is None for d in a.kw_defaults)
                if not needs and not any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(tree)):
                    return name
    return None


def _parse(code, name):
    return ast.parse(code, name, "exec")


def _compile(tree, name):
    return compile(tree, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def program(code, name, line, roots):
    """Compiles a program: its code, and the name of the function that is to be called if it gives no value."""
    tree = _parse("\n" * line + code if line else code, name)
    entry = _entry(tree)
    facts = _Facts(roots)
    facts.visit(tree)
    tree = _Rewriter(facts, True).visit(tree)
    _tail(tree.body)
    return _compile(tree, name), entry


def module(code, name):
    """Compiles a module of the program's own."""
    from . import tools

    tree = _parse(code, name)
    facts = _Facts(set(tools.names) | set(tools.tools._all))
    facts.visit(tree)
    return compile(_Rewriter(facts, False).visit(tree), name, "exec", dont_inherit=True)
