"""Writes elements of a data set to TFRecord shards, inside a process that has TensorFlow.

shard_writer      a folder of shards that survives being killed
element_records   what an element looks like as a record
packing_job       packs or samples a data set
script_dataset    takes the data set from a running script
folder_elements   makes a data set of a folder of files
"""

# Takes the data set from a running script, whose text gets this call: see ``script_dataset``.
TAKE_DATASET = '__import__("slowtrain.capture.packing.script_dataset", fromlist=["take_dataset"]).take_dataset'
