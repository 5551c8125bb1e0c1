"""Rewrites programs before they are compiled.

A tool call stands for its value: it is awaited, or in a function that can't await, settled
synchronously. The calls in a comprehension are all made before the first is awaited, unless the
program would catch an error of one there.

A program that handles awaitables itself (gather, tasks, await of a name) may need the call rather
than its value. In such a program, calls are awaited where their value is certainly needed. Uncertain
cases are left alone: an argument of the program's own functions, an element of a list, a name that
is passed to gather. An unawaited ToolCall behaves like its value when used. Wrapping something by
mistake is harmless: helpers return anything but a ToolCall unchanged.

A return outside functions ends the program with a value. Otherwise the last expression is the value.
"""

import ast
import builtins
import inspect
import sys

from . import calls, tools, values
from .facts import STORES, Facts, Visitor, gets, name_of, root_of
from .private import private

ast, inspect = private(ast), private(inspect)

# The names end in __, otherwise name mangling would apply inside classes.
_AWAIT, _AWAIT_ANY, _AWAIT_GIVEN, _AWAIT_ALL, _SETTLE, _SETTLE_ALL = (
    "__biplane_%s__" % n for n in ("await", "await_any", "await_given", "await_all", "settle", "settle_all")
)
_TOOL, RESULT, ASSIGNED, _LEFT = "__biplane_tool__", "__biplane_result__", "__biplane_assigned__", "__biplane_left__"
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


def _given_awaitable(x):
    """Makes x awaitable: in a session it may be the value of an earlier program's call."""
    return _Ready(x) if type(x) in values.GIVEN else x


def _calls_in(x, depth, found):
    """Collects the calls in a display and its nested displays."""
    for v in x.values() if type(x) is dict else x:
        if isinstance(v, calls.ToolCall):
            found.append(v)
        elif depth > 1 and type(v) in (list, tuple, set, dict):
            _calls_in(v, depth - 1, found)
    return found


def _with_values(x, depth):
    """Replaces the calls in a display, all of which are answered, by their values. A display
    without calls is the program's own and is returned unchanged."""
    if not _calls_in(x, depth, []):
        return x

    def value(v):
        if isinstance(v, calls.ToolCall):
            return v.result()
        return _with_values(v, depth - 1) if depth > 1 and type(v) in (list, tuple, set, dict) else v

    if type(x) is dict:
        return {k: value(v) for k, v in x.items()}
    return type(x)(map(value, x))


async def _await_all(x, depth):
    for c in calls.seen(_calls_in(x, depth, [])):
        await c
    return _with_values(x, depth)


def _settle_all(x, depth):
    for c in calls.seen(_calls_in(x, depth, [])):
        calls.settle(c)
    return _with_values(x, depth)


def install():
    builtins.__dict__[_AWAIT] = _awaitable
    builtins.__dict__[_AWAIT_ANY] = _any_awaitable
    builtins.__dict__[_AWAIT_GIVEN] = _given_awaitable
    builtins.__dict__[_AWAIT_ALL] = _await_all
    builtins.__dict__[_SETTLE] = calls.settled
    builtins.__dict__[_SETTLE_ALL] = _settle_all
    builtins.__dict__[_TOOL] = tools.settling


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


class _Rewriter(Visitor):
    def __init__(self, facts, can_await, plain):
        super().__init__()
        self.facts = facts
        self.plain = plain
        self.passes = False  # whether it passes tools on as functions that return values
        self.can_await = can_await
        self.top = can_await
        self.lends = False  # inside a function that returns calls
        self.catching = False  # inside code that catches a call's error
        self.returns = False

    def wrap(self, node, helper=_AWAIT):
        """Awaits or settles a node if it is a tool call."""
        if type(node) is not ast.Call or not self.facts.is_tool(node):
            return node
        return self.waited(node, helper)

    def waited(self, node, helper=_AWAIT, *more):
        name = helper if self.can_await else _SETTLE_ALL if more else _SETTLE
        more = [ast.copy_location(ast.Constant(x), node) for x in more]
        call = ast.copy_location(ast.Call(ast.copy_location(ast.Name(name, ast.Load()), node), [node, *more], []), node)
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
        if isinstance(v, ast.Call):  # an awaited call needs no help, but its arguments may
            v.func = self.func(v.func)
            self.arguments(v)
        else:
            node.value = self.visit(v)
        name = ast.copy_location(ast.Name(_AWAIT_GIVEN, ast.Load()), v)
        node.value = ast.copy_location(ast.Call(name, [node.value], []), v)
        return node

    def arguments(self, node):
        eats = self.facts.is_tool(node) or self.consumes(node.func) or self.catching and self.stores(node.func)
        node.args = [self.wrap(a) if eats else a for a in map(self.argument, node.args)]
        for k in node.keywords:
            k.value = self.argument(k.value)
            if eats:
                k.value = self.wrap(k.value)

    def argument(self, node):
        """Visits an argument. A tool passed as an argument returns values, since its caller expects
        them."""
        if self.plain and type(node) is ast.Name and node.id in self.facts.tools:
            return self.settling(node)
        return self.visit(node)

    def stores(self, func):
        """Reports whether func stores its argument in a container that is never awaited."""
        return isinstance(func, ast.Attribute) and func.attr in STORES and isinstance(func.value, ast.Name) and func.value.id not in self.facts.lazy

    def consumes(self, func):
        if isinstance(func, ast.Name):
            return func.id in _CONSUMERS
        if not isinstance(func, ast.Attribute):
            return False
        if func.attr in _EATERS or isinstance(func.value, (ast.Constant, ast.JoinedStr)):
            return True
        root = root_of(func)
        return root in self.facts.modules and root not in _LAZY_MODULES

    def visit_Call(self, node):
        f = node.func
        runs = isinstance(f, ast.Attribute) and (f.attr == "run_until_complete" or f.attr == "run" and isinstance(f.value, ast.Name) and f.value.id == "asyncio")
        runs = runs or isinstance(f, ast.Name) and f.id in self.facts.runs
        if runs and self.can_await and len(node.args) == 1:
            return self.waited(self.visit(node.args[0]), _AWAIT_ANY)
        node = self.call(node, runs)
        return self.wrap(node) if self.plain else node

    def func(self, node):
        if self.facts.names_tool(node):
            return node
        if gets(node) and self.facts.names_tool(node.args[0]):
            node.args[1:] = map(self.visit, node.args[1:])
            return node
        return self.visit(node)

    def visit_Attribute(self, node):
        """A tool used as a value returns values, since its caller expects them."""
        if self.plain and self.facts.names_tool(node):
            return self.settling(node)
        return self.inside(node)

    def settling(self, node):
        self.passes = True
        return ast.copy_location(ast.Call(ast.copy_location(ast.Name(_TOOL, ast.Load()), node), [node], []), node)

    def call(self, node, runs=False):
        """Visits the inside of a call without wrapping it."""
        node.func = self.func(node.func)
        if runs and node.args and isinstance(node.args[0], ast.Call):
            node.args[0] = self.call(node.args[0])
        else:
            self.arguments(node)
        return node

    def visit_Assign(self, node):
        if self.facts.names_tool(node.value):
            if not all(isinstance(t, ast.Name) for t in node.targets):
                node.targets = [self.visit(t) for t in node.targets]
                node.value = self.argument(node.value)
            return node
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
            # An unawaited coroutine that nothing else could await.
            node.value = self.waited(v, _AWAIT_ANY)
        return node

    def visit_Return(self, node):
        self.returns = self.returns or self.top
        v = node.value
        if type(v) is ast.Call and self.lends and not self.catching and self.facts.is_tool(v):
            node.value = self.call(v)
        elif v is not None:
            node.value = self.visit(v)
            if self.can_await or self.plain or self.facts.pools and self.catching:
                node.value = self.wrap(node.value)
        return node

    def visit_Try(self, node):
        saved, self.catching = self.catching, True
        node.body = [self.visit(s) for s in node.body]
        self.catching = saved
        for field in ("handlers", "orelse", "finalbody"):
            setattr(node, field, [self.visit(s) for s in getattr(node, field)])
        return node

    visit_TryStar = visit_Try

    def visit_With(self, node):
        saved = self.catching
        self.catching = saved or any(isinstance(i.context_expr, ast.Call) and name_of(i.context_expr.func) == "suppress" for i in node.items)
        self.inside(node)
        self.catching = saved
        return node

    visit_AsyncWith = visit_With

    def scope(self, node, can_await):
        saved = self.can_await, self.top
        self.can_await, self.top = can_await, False
        super().inside(node)
        self.can_await, self.top = saved
        return node

    def function(self, node, can_await):
        """Visits a function. Decorators and defaults belong to the surrounding scope."""
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.args = self.visit(node.args)
        saved = self.can_await, self.top, self.lends, self.catching
        self.can_await, self.top, self.catching = can_await, False, False
        self.lends = not can_await and (not self.plain or node.name in self.facts.lending)
        node.body = [self.visit(s) for s in node.body]
        self.can_await, self.top, self.lends, self.catching = saved
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
        depth = self.together(node) if self.plain and not self.catching else 0
        if not depth:
            self.inside(node)
            self.iterations(node.generators, self.can_await)
        if not depth:
            return node
        element = node.value if isinstance(node, ast.DictComp) else node.elt
        return ast.copy_location(self.waited(node, _AWAIT_ALL, depth), element)

    visit_ListComp = visit_SetComp = visit_DictComp = comprehension

    def together(self, node):
        """Rewrites a comprehension so that all its calls are made before the first is awaited.
        Returns the nesting depth of the calls, 0 if there are none."""
        field = "value" if isinstance(node, ast.DictComp) else "elt"
        depth = self.calls_at(getattr(node, field))
        if depth:
            for g in node.generators:
                self.visit(g)
            self.iterations(node.generators, self.can_await)
            if field == "value":
                node.key = self.wrap(self.visit(node.key))
            setattr(node, field, self.left(getattr(node, field)))
        return depth

    def calls_at(self, node):
        """Returns how deep in displays the calls are, counted from 1; 0 if there are none."""
        if isinstance(node, ast.Call):
            return int(self.facts.is_tool(node))
        if isinstance(node, (ast.List, ast.Tuple)):
            inner = node.elts
        elif isinstance(node, ast.Dict):
            inner = node.values
        elif isinstance(node, ast.ListComp):
            inner = [node.elt]
        else:
            return 0
        depth = max(map(self.calls_at, inner), default=0)
        return depth and depth + 1

    def left(self, node):
        """Visits an element of a comprehension without awaiting its calls."""
        if isinstance(node, ast.Call) and self.facts.is_tool(node):
            return self.call(node)
        if not self.calls_at(node):
            return self.visit(node)
        if isinstance(node, ast.ListComp):
            self.together(node)
        elif isinstance(node, ast.Dict):
            node.keys = [k and self.visit(k) for k in node.keys]
            node.values = [self.left(v) for v in node.values]
        else:
            node.elts = [self.left(e) for e in node.elts]
        return node


def _names(target):
    """Returns the names that an assignment binds; None if it has other targets."""
    if isinstance(target, ast.Starred):
        return _names(target.value)
    if isinstance(target, (ast.Tuple, ast.List)):
        found = [_names(t) for t in target.elts]
        return None if None in found else sum(found, [])
    return [target.id] if isinstance(target, ast.Name) else None


def _assigned(body):
    """Makes the target of a final assignment the program's value: a single name's value, or a dict
    of several names. Returns a note about it, or None if the program doesn't end in an
    assignment."""
    last = body[-1] if body else None
    if isinstance(last, ast.Assign):
        target = last.targets[0]
    elif isinstance(last, ast.AugAssign) or isinstance(last, ast.AnnAssign) and last.value is not None:
        target = last.target
    else:
        return None
    names = _names(target)
    if names and isinstance(target, ast.Name):
        value = ast.Name(names[0], ast.Load())
        said = names[0]
    elif names:
        value = ast.Dict([ast.Constant(n) for n in names], [ast.Name(n, ast.Load()) for n in names])
        said = "{%s}" % ", ".join('"%s": %s' % (n, n) for n in names[:5])
    elif isinstance(target, (ast.Subscript, ast.Attribute)) and root_of(target) is not None:
        said = root_of(target)
        value = ast.Name(said, ast.Load())
    else:
        return None
    new = ast.Assign([ast.Name(RESULT, ast.Store()), ast.Name(ASSIGNED, ast.Store())], value)
    body.append(ast.fix_missing_locations(ast.copy_location(new, last)))
    return "the program ends in an assignment, so the value of %s is returned. End it with return %s, or with the expression alone, to make this explicit" % (said, said)


def _tail(body):
    """Makes the last expression of a program, or of its final block, the program's value. Reports
    whether there is one."""
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


def _returned(body, name, loop=False):
    """Replaces each return outside functions by a break out of the loop that _ended adds. Unlike an
    exception, a break affects with, try and TaskGroup no more than a return does. loop tells
    whether the statements are inside a loop of the program."""
    out, found = [], False
    for s in body:
        if isinstance(s, ast.Return):
            found = True
            value = s.value or ast.Constant(None)
            new = [ast.Assign([ast.Name(RESULT, ast.Store())], value)]
            if loop:
                new.append(ast.Assign([ast.Name(_LEFT, ast.Store())], ast.Constant(True)))
            out += [ast.fix_missing_locations(ast.copy_location(n, s)) for n in (*new, ast.Break())]
            continue
        if not loop and isinstance(s, (ast.Break, ast.Continue)):
            # Raises the syntax error that the added loop would hide.
            _compile(ast.Module([s], []), name)
        out.append(s)
        if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        inner = isinstance(s, (ast.For, ast.AsyncFor, ast.While))
        for x in [s, *getattr(s, "handlers", ()), *getattr(s, "cases", ())]:
            for field in ("body", "orelse", "finalbody"):
                b = getattr(x, field, None)
                if b:
                    b[:], there = _returned(b, name, loop or inner and field == "body")
                    found = found or there
                    if there and inner and field == "body":
                        leave = ast.If(ast.Name(_LEFT, ast.Load()), [ast.Break()], [])
                        out.append(ast.fix_missing_locations(ast.copy_location(leave, s)))
    return out, found


def _ended(body, name):
    """Returns the statements of a program with a loop around them that a return leaves."""
    head, rest = [], []
    for s in body:
        new, found = _returned([s], name)
        if found or rest:
            rest += new
        else:
            head += new
    left = ast.Assign([ast.Name(_LEFT, ast.Store())], ast.Constant(False))
    loop = ast.While(ast.Constant(True), rest + [ast.copy_location(ast.Break(), rest[-1])], [])
    return head + [ast.fix_missing_locations(ast.copy_location(n, body[-1])) for n in (left, loop)]


def _entry(tree):
    """Returns the name of the program's function main or run if it needs no arguments and is never
    mentioned again."""
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


def _bound(tree):
    """Returns the names that a program binds itself."""
    out = set()
    for n in ast.walk(tree):
        if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load):
            out.add(n.id)
        elif isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs)):
            out.add(n.name)
        elif isinstance(n, ast.arg):
            out.add(n.arg)
        elif isinstance(n, ast.alias):
            out.add(n.asname or n.name.partition(".")[0])
    return out


def program(code, name, line, roots, session=False, others=frozenset()):
    """Compiles a program. Returns its code, the name of the function to call if it has no value,
    and a note about its value, or None. others are additional roots unless the program binds
    them."""
    tree = _parse("\n" * line + code if line else code, name)
    others = {n for n in others if n in code}
    if others:
        roots = roots | (others - _bound(tree))
    entry = _entry(tree)
    facts = Facts(roots)
    facts.take(tree)
    facts.remember()
    rewriter = _Rewriter(facts, True, not facts.handles())
    tree = rewriter.visit(tree)
    if rewriter.passes and facts.awaits_passed():
        rewriter = _Rewriter(facts, True, False)
        tree = rewriter.visit(_parse("\n" * line + code if line else code, name))
    note = None
    if not _tail(tree.body) and entry is None and not session:
        note = _assigned(tree.body)
    if rewriter.returns:
        tree.body = _ended(tree.body, name)
    return _compile(tree, name), entry, note


def module(code, name):
    """Compiles a module of the program's own."""
    tree = _parse(code, name)
    facts = Facts(set(tools.names) | set(tools.tools._all))
    facts.take(tree)
    return compile(_Rewriter(facts, False, not facts.handles()).visit(tree), name, "exec", dont_inherit=True)
