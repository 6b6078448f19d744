import tensorflow as tf
from transformers import AutoTokenizer, TFAutoModelForSequenceClassification
from datasets import load_dataset

raw = load_dataset("glue", "sst2")
tokenizer = AutoTokenizer.from_pretrained("bert-base-cased")
tokenized = raw.map(lambda rows: tokenizer(rows["sentence"], truncation=True, padding="max_length", max_length=64), batched=True)
model = TFAutoModelForSequenceClassification.from_pretrained("bert-base-cased", num_labels=2)
train = model.prepare_tf_dataset(tokenized["train"], batch_size=16, shuffle=True, tokenizer=tokenizer)
valid = model.prepare_tf_dataset(tokenized["validation"], batch_size=16, shuffle=False, tokenizer=tokenizer)
model.compile(optimizer=tf.keras.optimizers.Adam(3e-5))
model.fit(train, validation_data=valid, epochs=3)
