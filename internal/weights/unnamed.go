package weights

import "os"

// Unnamed puts data into a file that has no name, in the system's folder for
// temporary files: a worker can be given it as a descriptor. Faults:
// cache.folder_unwritable, cache.disk_full, cache.write_failed,
// platform.unsupported.
func Unnamed(data []byte) (*os.File, error) {
	dir, need := os.TempDir(), int64(len(data))
	if err := enough(dir, need); err != nil {
		return nil, err
	}
	file, err := nameless(dir)
	if err != nil {
		return nil, unmade(dir, need, err)
	}
	if _, err := file.Write(data); err != nil {
		_ = file.Close()
		return nil, unwritten(dir, need, err)
	}
	return file, nil
}
