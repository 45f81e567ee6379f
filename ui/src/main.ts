/** Opens the door and puts the panel on the page. */
import { mount } from "svelte";

import { open } from "#host";

import App from "./App.svelte";
import "./look/tokens.css";
import "./look/base.css";

const target = document.getElementById("panel");
if (target) mount(App, { target, props: { host: open() } });
