"""Settings of the shop; the tests say which database: SHOP_DATABASE, as JSON."""

import json
import os

SECRET_KEY = "of the tests"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "shop.urls"
TIME_ZONE = "Europe/Berlin"
USE_TZ = os.environ.get("SHOP_USE_TZ", "on") == "on"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "ostinato.django",
    "shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DATABASES = {"default": json.loads(os.environ["SHOP_DATABASE"])}
TASKS = {
    "default": {
        "BACKEND": "ostinato.django.Backend",
        "QUEUES": ["default", "queue_1"],
        "OPTIONS": {"shutdown_grace": "1s", "lease": "5s"},
    },
    "open": {"BACKEND": "ostinato.django.Backend", "QUEUES": []},
}
STATIC_URL = "/static/"
