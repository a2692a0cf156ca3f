package admin

import "net/url"

// dirs serves GET /v1/dirs.
func dirs(v *View, q url.Values) (any, error) {
	if err := known(q); err != nil {
		return nil, err
	}
	return map[string]any{"dirs": v.Dirs()}, nil
}
