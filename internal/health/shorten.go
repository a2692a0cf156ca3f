package health

import "strings"

// Cut ends a text of which another broker sent more than this one keeps.
const Cut = " … (cut: `chronikctl cluster health --admin HOST:PORT`, with the admin port of the broker that has this finding, shows all of it)"

// shorten cuts texts for people to at most maxText bytes, and adds Cut to those. A part of a
// command may do something else than the whole one, so that none remains: a text ends after a
// clause, or without one after a word.
func shorten(texts ...*string) {
	for _, s := range texts {
		if len(*s) > maxText {
			clause, word := ends(*s, maxText-len(Cut))
			if clause == 0 {
				clause = word
			}
			*s = strings.Clone((*s)[:clause]) + Cut
		}
	}
}

// shortenRemedy is shorten for what a person does. Without a clause that ends, nothing remains:
// a list that is cut in a sentence is one that is wrong.
func shortenRemedy(s *string) {
	if len(*s) > maxText {
		clause, _ := ends(*s, maxText-len(Cut))
		*s = strings.TrimLeft(strings.Clone((*s)[:clause])+Cut, " ")
	}
}

// ends returns where the last clause and the last word end in the first bytes of a text, outside of
// commands as Command writes them; 0 if none does. What separates them is left out.
func ends(s string, most int) (clause, word int) {
	command, quoted := false, false
	for i := 0; i < most; i++ {
		switch c := s[i]; {
		case c == '\\' && command && !quoted:
			i++ // what follows has no meaning
		case c == '`' && !quoted:
			command = !command
		case c == '\'' && command:
			quoted = !quoted
		case c == ' ' && !command:
			if word = i; i > 0 && (s[i-1] == ';' || s[i-1] == '.') {
				clause = i - 1
			}
		}
	}
	return clause, word
}
