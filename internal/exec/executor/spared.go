package executor

import "encoding/json"

// maxSeen is the maximum size of the tool results that an execution holds to count their tokens, in
// bytes.
const maxSeen = 8 << 20

// A spared holds the results of a program's calls, which its agent did not have to read, until
// their tokens are counted. It isn't safe for concurrent use.
type spared struct {
	results []json.RawMessage
	bytes   int // of results
	beyond  int // bytes of the results over maxSeen
	counted bool
}

// addResult adds the result of a call.
func (s *spared) addResult(result json.RawMessage) {
	if s.bytes+len(result) <= maxSeen {
		s.results = append(s.results, result)
		s.bytes += len(result)
	} else {
		s.beyond += len(result)
	}
}

// countTokens returns the number of tokens of all results, given a function that returns that of a
// text. The tokens of the results over maxSeen are estimated.
func (s *spared) countTokens(count func(text string) (int, error)) (int, error) {
	all := 0
	for _, raw := range s.results {
		n, err := count(string(raw))
		if err != nil {
			return 0, err
		}
		all += n
	}
	if s.bytes > 0 {
		all += int(float64(s.beyond) * float64(all) / float64(s.bytes))
	}
	return all, nil
}
