"""Packing: data are written once, in a form that reads fast.

plan_file     the plan as a JSON document
script_plan   a plan for the data set that a script builds
folder_plan   a plan for a folder of images, CSV or NPZ files
packing_run   does what a plan says
beam_packing  the same for a folder, in the processes of an Apache Beam pipeline
"""
