package demo

// The words that the demonstration's records are generated from.

type place struct{ city, country, region string }

type plan struct {
	name  string
	cents int // per month and seat
}

type product struct {
	sku, name string
	cents     int
}

var (
	firstNames = []string{"Ada", "Ben", "Chloe", "Dmitri", "Elena", "Farid", "Grace", "Hugo", "Ines", "Jonas", "Keiko",
		"Liam", "Mara", "Nils",
		"Olga", "Pavel", "Quinn", "Rosa", "Sven", "Tara", "Uma", "Viktor", "Wanda", "Xavier", "Yara", "Zoe", "Amir",
		"Bianca", "Carlos", "Dana",
		"Emil", "Fatima", "Georg", "Hanna", "Ivan", "Jana", "Karl", "Lucia", "Mateo", "Nadia"}
	lastNames = []string{"Anders", "Becker", "Costa", "Duarte", "Eriksen", "Fischer", "Garcia", "Haddad", "Ivanov",
		"Jensen", "Kowalski", "Larsen",
		"Moreau", "Novak", "Okafor", "Petrov", "Quiroga", "Rossi", "Santos", "Tanaka", "Ueda", "Vargas", "Weber", "Xu",
		"Yilmaz", "Zhang",
		"Brandt", "Chen", "Dubois", "Engel", "Ferrari", "Gomez", "Huber", "Ito", "Joshi", "Klein", "Lopez", "Meyer",
		"Nguyen", "Olsen", "Park"}
	companyWords = []string{"Northwind", "Bluebird", "Granite", "Harbor", "Juniper", "Keystone", "Lantern", "Meridian",
		"Nimbus", "Orchard",
		"Pinnacle", "Quarry", "Redwood", "Summit", "Tidewater", "Umbra", "Vertex", "Willow"}
	companyKinds = []string{"Logistics", "Analytics", "Foods", "Health", "Robotics", "Media", "Energy", "Textiles",
		"Labs", "Partners"}
	industries = []string{"logistics", "software", "food", "healthcare", "manufacturing", "media", "energy",
		"retail", "finance"}
	streets = []string{"Harbour Street", "Mill Lane", "Station Road", "Market Square", "Oak Avenue",
		"Canal Walk", "Hill Road"}
	places = []place{{"Rotterdam", "NL", "emea"}, {"Hamburg", "DE", "emea"}, {"Lyon", "FR", "emea"},
		{"Austin", "US", "amer"},
		{"Toronto", "CA", "amer"}, {"Recife", "BR", "amer"}, {"Osaka", "JP", "apac"}, {"Pune", "IN", "apac"},
		{"Perth", "AU", "apac"}}
	plans    = []plan{{"starter", 900}, {"team", 1900}, {"business", 3900}, {"enterprise", 7900}}
	owners   = []string{"m.lindqvist", "s.okoye", "j.farrell", "r.castellanos", "t.nakamura"}
	tagNames = []string{"self-serve", "referral", "partner", "event-2024", "trial-converted", "reseller"}
	clients  = []string{"web/chrome", "web/firefox", "web/safari", "ios/7.2", "android/7.1", "cli/3.0"}
	products = []product{{"SEAT-ADD", "Additional seat", 1900}, {"STOR-100", "Storage, 100 GB", 1200},
		{"API-1M", "API calls, 1 million", 4500},
		{"SUP-PRIO", "Priority support, month", 9900}, {"TRN-DAY", "Training, one day", 64000},
		{"EXP-ARC", "Archive export", 7500}}
	noteTexts = []string{
		"Quarterly review held. Happy with the reporting module, asked again for single sign-on.",
		"Champion left the company; the new contact is to be introduced next month.",
		"Procurement wants the invoice split over two cost centres. Passed on to billing.",
		"Asked about the export of archived projects. Sent the guide, no reply so far.",
		"Renewal discussed. Budget is approved, the paperwork is with their legal department.",
		"Migrated from the old workspace; two integrations still have to be moved.",
		"Left a voicemail and followed up by mail about the unused seats.",
	}
	subjects = []string{"Cannot invite a colleague", "Export stops at 10,000 rows", "Invoice shows the old address",
		"Webhook delivered twice",
		"Two-factor code not accepted", "Slow dashboard on Mondays", "Question about data residency"}
)
