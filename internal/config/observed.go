package config

// ObservedTypes selects the upstreams of which the types of results are learned.
type ObservedTypes struct {
	Off       bool            // unless Upstreams has the upstream
	Upstreams map[string]bool // the upstreams with a setting of their own
}

// ListObservedTypes returns for which upstreams the types of results are learned.
func (c *Config) ListObservedTypes() ObservedTypes {
	out := ObservedTypes{Off: c.Observed != nil && !*c.Observed, Upstreams: map[string]bool{}}
	for _, s := range c.ListSources() {
		if s.Observed != nil {
			out.Upstreams[s.Name] = *s.Observed
		}
	}
	return out
}

// Descriptions configures how tool descriptions are handled, for one upstream or for all.
type Descriptions struct {
	Definitions Definitions // for one upstream, they have no lock file
	Observed    *bool       // whether types of results are learned; nil: the setting for all upstreams, or the default
}

// observedReader returns the function that reads the key observed_types.
func observedReader(r *reader, what string, observed **bool) func(*node) {
	return func(n *node) {
		on := r.readBool(n, what)
		*observed = &on
	}
}
