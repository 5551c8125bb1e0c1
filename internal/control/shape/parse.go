package shape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/biplane-dev/biplane/internal/tool"
)

// maxEncoded is the maximum size of an encoded Observation, in bytes.
const maxEncoded = 128 << 10

// An Observation is what was learned of the results of one tool. It is immutable.
type Observation struct {
	Digest  string `json:"digest"`  // of the tool's definition
	Version int    `json:"version"` // counts the definitions whose results were observed
	Results int    `json:"results"` // that were read
	Shape   *Shape `json:"shape"`   // nil: none was read
}

// EncodeObservation returns the stored form of o.
func EncodeObservation(o Observation) ([]byte, error) { return tool.Marshal(o) }

// ParseObservation parses the output of EncodeObservation. It returns an error if a limit is
// exceeded, or if anything in it can't be the result of reading and merging values.
func ParseObservation(data []byte) (Observation, error) {
	if len(data) > maxEncoded {
		return Observation{}, fmt.Errorf("it has %d bytes, at most %d are read", len(data), maxEncoded)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var o Observation
	if err := d.Decode(&o); err != nil {
		return Observation{}, err
	}
	if d.More() {
		return Observation{}, errors.New("there is more after the observation")
	}
	if o.Version < 1 || o.Results < 0 || len(o.Digest) > maxDigest || (o.Shape == nil) != (o.Results == 0) {
		return Observation{}, errors.New("an impossible number")
	}
	if o.Shape != nil {
		if err := o.Shape.checkShape(0); err != nil {
			return Observation{}, err
		}
		if o.Shape.countNodes() > maxNodes {
			return Observation{}, errors.New("too many fields")
		}
	}
	return o, nil
}

// maxDigest is the maximum length of a digest.
const maxDigest = 128

// checkShape returns an error if no values have this Shape.
func (s *Shape) checkShape(depth int) error {
	switch {
	case depth > maxDepth:
		return errors.New("it nests too deeply")
	case s.Kinds == 0 || s.Kinds&Any != 0 && s.Kinds != Any:
		return fmt.Errorf("unknown kinds %d", s.Kinds)
	case s.Items != nil && s.Kinds&Array == 0, (s.Values != nil || len(s.Fields) > 0) && s.Kinds&Object == 0,
		s.Values != nil && len(s.Fields) > 0, s.Partial && s.Kinds&(Array|Object) == 0:
		return errors.New("parts of another kind")
	case len(s.Fields) > maxFields || hasDataName(s.Fields):
		return errors.New("names that are not kept")
	}
	for _, part := range []*Shape{s.Items, s.Values} {
		if part != nil {
			if err := part.checkShape(depth + 1); err != nil {
				return err
			}
		}
	}
	for name, f := range s.Fields {
		if f == nil || f.Results < 1 || f.Results > minShown {
			return fmt.Errorf("field %s: an impossible number of results", name)
		}
		if err := f.checkShape(depth + 1); err != nil {
			return err
		}
	}
	return nil
}
