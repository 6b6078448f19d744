"""Writes elements of a data set to TFRecord shards, inside a process that has TensorFlow.

shard_writer      a folder of shards that survives being killed
element_records   what an element looks like as a record
packing_job       packs or samples a data set
script_dataset    takes the data set from a running script
folder_elements   makes a data set of a folder of files
"""

# Take the data set from a running script, whose text gets one of these calls: see ``script_dataset``.
TAKE_RESULTS = '__import__("slowtrain.capture.packing.script_dataset", fromlist=["take_results"]).take_results'
TAKE_CONTENTS = '__import__("slowtrain.capture.packing.script_dataset", fromlist=["take_contents"]).take_contents'
