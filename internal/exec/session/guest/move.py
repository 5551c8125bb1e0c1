def __biplane_move(function, argument):
    import base64, importlib, inspect, json, pickle, textwrap, types

    def describe(e):
        return "%s: %s" % (type(e).__name__, str(e)[:100])

    def is_ours(value):
        ours = value if isinstance(value, type) or callable(value) else type(value)
        return str(getattr(ours, "__module__", "")).startswith("_biplane") and not isinstance(value, (dict, list))

    def collect(names, most):
        moved, left = {}, {}
        names = [name for name, value in globals().items() if not name.startswith("__") and not is_ours(value)]
        for name in names:
            if name not in globals():
                continue
            value = globals()[name]
            try:
                if isinstance(value, types.ModuleType):
                    item = {"kind": "module", "text": value.__name__}
                elif isinstance(value, types.FunctionType) and value.__module__ == "__main__":
                    if value.__closure__ or value.__name__ != name:
                        left[name] = "a function with variables of its own"
                        continue
                    item = {"kind": "program", "text": textwrap.dedent(inspect.getsource(value))}
                elif isinstance(value, type) and value.__module__ == "__main__":
                    left[name] = "a class"
                    continue
                else:
                    item = {"kind": "pickle", "text": base64.b64encode(pickle.dumps(value, 4)).decode()}
            except BaseException as e:
                left[name] = describe(e)
                continue
            most -= len(item["text"])
            if most < 0:
                left[name] = "the variables are too large"
                break
            moved[name] = item
        for name in names:
            if name in globals() and name not in moved:
                left.setdefault(name, "the variables are too large")
        return {"moved": moved, "left": left}

    def restore(moved):
        left = {}
        for name, item in moved.items():
            try:
                if item["kind"] == "module":
                    globals()[name] = importlib.import_module(item["text"])
                elif item["kind"] == "pickle":
                    globals()[name] = pickle.loads(base64.b64decode(item["text"]))
            except BaseException as e:
                left[name] = describe(e)
        return {"left": left}

    return json.dumps({"collect": collect, "restore": restore}[function](**json.loads(base64.b64decode(argument))))


__biplane_moved = __biplane_move("FUNCTION", ARGUMENT)
del __biplane_move
globals().pop("__biplane_moved")
