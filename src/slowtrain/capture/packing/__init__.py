"""Writes elements of a data set to shards of records, inside a process that has TensorFlow.

record_files      TFRecord and ArrayRecord files
shard_writer      a folder of shards that survives being killed
element_records   what an element looks like as a record
packing_job       packs or samples a data set
script_dataset    takes the data set from a running script
script_batches    takes the batches of a PyDataset from a running script
folder_elements   makes a data set of a folder of files
"""

# Take the data set from a running script, whose text gets one of these calls: see ``script_dataset``.
TAKE_RESULTS = '__import__("slowtrain.capture.packing.script_dataset", fromlist=["take_results"]).take_results'
TAKE_BATCHES = '__import__("slowtrain.capture.packing.script_batches", fromlist=["take_batches"]).take_batches'
TAKE_CONTENTS = '__import__("slowtrain.capture.packing.script_dataset", fromlist=["take_contents"]).take_contents'
