package shape

import "slices"

// minWarn is the number of results that are needed to say that a field was never observed.
const minWarn = 5

// FindMissing returns the observed fields beside the last field of path, sorted, if no result had
// that field. A path leads from the result through names of fields; "" is an item of an
// array. ok is false unless it is certain: if too few results were read, or only parts of them, or
// if something on the path may be another value.
func (o Observation) FindMissing(path []string) (fields []string, ok bool) {
	if o.Results < minWarn || len(path) == 0 || path[len(path)-1] == "" {
		return nil, false
	}
	s := o.Shape
	for i, step := range path {
		switch {
		case s == nil || s.Partial || s.Values != nil:
			return nil, false
		case step == "" && s.Kinds&^Null == Array:
			s = s.Items
			continue
		case step == "" || s.Kinds&^Null != Object:
			return nil, false
		}
		f := s.Fields[step]
		switch {
		case i == len(path)-1 && f == nil:
			fields = s.listShown()
			return fields, len(fields) > 0
		case f == nil || !f.IsShown():
			return nil, false
		}
		s = &f.Shape
	}
	return nil, false
}

// listShown returns the names of the fields that may be shown, sorted.
func (s *Shape) listShown() (names []string) {
	for name, f := range s.Fields {
		if f.IsShown() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
