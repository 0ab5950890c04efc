package event

// DownloadProgressed: so much of a file lies on the disk. It may begin again.
type DownloadProgressed struct {
	File  string `json:"file"`
	Done  int64  `json:"done"`  // bytes
	Total int64  `json:"total"` // 0: not known
}

// Name implements Event.
func (DownloadProgressed) Name() string { return "fetch.download_progressed" }
