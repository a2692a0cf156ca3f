package view

// Budget is a part of the memory with a limit. Sizes are in bytes.
type Budget struct {
	Name        string // as the label of metrics: "produce_arriving"
	Used, Limit int64
}
