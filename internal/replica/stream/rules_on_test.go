//go:build breakrules

package stream

func (o *Options) setRules(r rule) { o.broken = broken{r} }
