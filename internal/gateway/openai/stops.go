package openai

import "strings"

// Stops finds the first of some texts in a text that comes in pieces, whatever
// borders it lies across. What may be the beginning of one is held back until
// that is known.
type Stops struct {
	texts []string
	held  string
}

// NewStops looks for texts, none of them empty.
func NewStops(texts []string) *Stops { return &Stops{texts: texts} }

// Add takes a piece and returns what may be told now; found says that one of the
// texts came behind that, after which nothing more is to be added.
func (s *Stops) Add(piece string) (tell string, found bool) {
	all := s.held + piece
	at := -1
	for _, t := range s.texts {
		if i := strings.Index(all, t); i >= 0 && (at < 0 || i < at) {
			at = i
		}
	}
	if at >= 0 {
		s.held = ""
		return all[:at], true
	}
	keep := 0
	for _, t := range s.texts {
		for n := min(len(t)-1, len(all)); n > keep; n-- {
			if strings.HasSuffix(all, t[:n]) {
				keep = n
				break
			}
		}
	}
	s.held = all[len(all)-keep:]
	return all[:len(all)-keep], false
}

// End returns what was held back: nothing follows it.
func (s *Stops) End() string {
	rest := s.held
	s.held = ""
	return rest
}
