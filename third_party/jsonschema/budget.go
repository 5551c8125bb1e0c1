package jsonschema

import (
	"errors"
	"strconv"

	"github.com/biplane-dev/biplane/third_party/jsonschema/kind"
)

// ErrSteps is returned by ValidateWithin if it took too many steps to find out whether the value is valid.
var ErrSteps = errors.New("the validation takes too many steps")

// ErrUnexplained is returned by ValidateWithin if the value is invalid, and it took too many steps to find out where.
var ErrUnexplained = errors.New("the value is invalid; finding out where takes too many steps")

const (
	bytesPerStep = 32     // of a string whose length or pattern is checked
	workPerStep  = 1024   // bytes of a string times instructions of the pattern
	maxErrors    = 10_000 // after so many, further members and items are not looked at
	maxRejectRef = 4      // references and properties that rejects follows
)

// A budget bounds one validation.
type budget struct {
	steps  int // left
	errors int // made
}

// invalid stands for every error that nobody reads. It is never written to.
var invalid = &ValidationError{ErrorKind: &kind.Group{}}

// ValidateWithin is Validate in at most so many steps. A step is one subschema that is applied to one value, one member
// of an object that it looks at, or a few bytes of a string. It first finds out whether the value is valid, which makes
// no errors. Only if it isn't, a second pass, with as many steps, finds out why.
func (sch *Schema) ValidateWithin(v any, steps int) (err error) {
	failure := ErrSteps
	defer func() {
		if r := recover(); r == ErrSteps {
			err = failure
		} else if r != nil {
			panic(r)
		}
	}()
	if sch.validateIn(&budget{steps: steps}, true, v, nil, nil, nil, false, nil) == nil {
		return nil
	}
	failure = ErrUnexplained
	return sch.validateIn(&budget{steps: steps}, false, v, nil, nil, nil, false, nil)
}

// step counts n steps. It panics if they exceed the budget.
func (vd *validator) step(n int) {
	if vd.budget == nil {
		return
	}
	if vd.budget.steps -= n; vd.budget.steps < 0 {
		panic(ErrSteps)
	}
}

// stepPattern counts the steps that matching s takes. A Regexp that has a ProgramSize method returns the number of its
// instructions: in the worst case each of them is looked at for each byte.
func (vd *validator) stepPattern(re Regexp, s string) {
	if sized, ok := re.(interface{ ProgramSize() int }); ok {
		vd.step(len(s) * sized.ProgramSize() / workPerStep)
	}
}

// enough reports whether further errors of the value make no difference.
func (vd *validator) enough() bool {
	return len(vd.errors) > 0 && (vd.boolResult || vd.budget != nil && vd.budget.errors > maxErrors)
}

// rejects reports whether sch certainly doesn't allow v, by what costs nothing to look at: types, constants,
// enumerations, and those of required members, which tell the branches of a union apart. It doesn't allocate.
func (vd *validator) rejects(sch *Schema, v any, depth int) bool {
	vd.step(1)
	if sch.Bool != nil {
		return !*sch.Bool
	}
	if sch.Types != nil && !sch.Types.IsEmpty() && !sch.Types.allow(v) {
		return true
	}
	switch v := v.(type) {
	case string:
		if sch.Const != nil && *sch.Const != any(v) || sch.Enum != nil && !sch.Enum.strings[v] {
			return true
		}
	case nil, bool:
		if sch.Const != nil && *sch.Const != v {
			return true
		}
	case map[string]any:
		if len(v) < len(sch.Required) {
			return true
		}
		for _, name := range sch.Required {
			if _, ok := v[name]; !ok {
				return true
			}
		}
		if depth < maxRejectRef {
			for _, name := range sch.discriminators {
				if member, ok := v[name]; ok && vd.rejects(sch.Properties[name], member, depth+1) {
					return true
				}
			}
		}
	}
	return sch.Ref != nil && depth < maxRejectRef && vd.rejects(sch.Ref, v, depth+1)
}

// discriminate notes which properties of a schema have few values.
func (sch *Schema) discriminate() {
	for name, p := range sch.Properties {
		if p.Const != nil || p.Enum != nil {
			sch.discriminators = append(sch.discriminators, name)
		}
	}
}

// allow reports whether v is of one of the types.
func (tt Types) allow(v any) bool {
	t := typeOf(v)
	return tt.contains(t) || t == numberType && tt.contains(integerType) && isInteger(v)
}

// enumerates reports whether v is one of the values of e.
func (vd *validator) enumerates(e *Enum, v any) (bool, ErrorKind) {
	t := typeOf(v)
	if !e.types.contains(t) {
		return false, nil
	}
	switch t {
	case stringType:
		return e.strings[v.(string)], nil
	case arrayType, objectType:
		vd.step(size(v) + len(e.Values))
	default:
		vd.step(len(e.Values))
	}
	for _, item := range e.Values {
		if ok, k := equals(v, item); ok || k != nil {
			return ok, k
		}
	}
	return false, nil
}

// validateItems validates the items of arr from one on.
func (vd *validator) validateItems(sch *Schema, arr []any, from int) {
	for i := from; i < len(arr) && !vd.enough(); i++ {
		vd.addErr(vd.validateItem(sch, arr[i], i))
	}
}

func (vd *validator) validateItem(sch *Schema, item any, i int) error {
	if vd.boolResult && vd.meta == nil {
		return vd.validateVal(sch, item, "")
	}
	return vd.validateVal(sch, item, strconv.Itoa(i))
}

// validItem reports whether an item is valid.
func (vd *validator) validItem(sch *Schema, item any, i int) bool {
	was := vd.boolResult
	vd.boolResult = true
	defer func() { vd.boolResult = was }()
	return vd.validateItem(sch, item, i) == nil
}

// itemErrors returns why the items of arr that are invalid are so.
func (vd *validator) itemErrors(sch *Schema, arr []any) (errors []*ValidationError) {
	for i, item := range arr {
		if vd.boolResult || vd.budget != nil && vd.budget.errors > maxErrors {
			break
		}
		if err := vd.validateItem(sch, item, i); err != nil {
			errors = append(errors, err.(*ValidationError))
		}
	}
	return errors
}

// branchErrors returns why the value is invalid for each of the schemas, none of which allows it.
func (vd *validator) branchErrors(schemas []*Schema) (errors []*ValidationError) {
	if vd.boolResult {
		return nil
	}
	for _, sch := range schemas {
		if err := vd.validateSelf(sch, "", false); err != nil {
			errors = append(errors, err.(*ValidationError))
		}
	}
	return errors
}

// size counts the values in v.
func size(v any) int {
	n := 1
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			n += size(item)
		}
	case map[string]any:
		for _, member := range v {
			n += size(member)
		}
	}
	return n
}
