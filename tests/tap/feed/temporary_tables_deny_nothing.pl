# Tests that catalog changes of others do not use up the time of a table owner: plans and conditions remain prepared while
# somebody creates and drops temporary tables, and nothing is denied.
use strict;
use warnings;

use Clairon::Test qw(amount);
use Test::More;

my ($RULES, $ROWS) = (40, amount(600, 2000));

my $pg = Clairon::Test::postgresql('main', conf => 'autovacuum = off');

sub sql { return $pg->safe_psql('postgres', $_[0]) }

sql(q{CREATE ROLE mallory; CREATE ROLE alice; CREATE SCHEMA alice AUTHORIZATION alice});

# Tests that each row, between which others change the catalogs, meets the condition of one of the rules.
sub sent
{
    my ($what, $condition, $type) = @_;
    sql(qq{SET ROLE alice;
        CREATE TYPE alice.state AS ENUM ('open', 'done');
        CREATE TYPE alice.pair AS (a int, b alice.state);
        CREATE TABLE alice.t (id serial PRIMARY KEY, owner text DEFAULT 'bob', s $type);
        SELECT clairon.watch('alice.t', 'USER', 'owner', name => 'r' || i, only_when => format(\$c\$ $condition AND id %% $RULES + 1 = %s \$c\$, i)) FROM generate_series(1, $RULES) AS i;
        RESET ROLE;
        SELECT pg_create_logical_replication_slot('slot', 'clairon')});
    sql(join '', map { "SET ROLE mallory; CREATE TEMP TABLE x (); DROP TABLE x; SET ROLE alice; INSERT INTO alice.t DEFAULT VALUES;\n" } 1 .. $ROWS);
    my $sent = sql(q{SELECT count(*) FROM pg_logical_slot_get_changes('slot', NULL, NULL)});
    sql(q{SELECT pg_drop_replication_slot('slot'); SELECT clairon.unwatch('alice.t', name) FROM clairon.rule WHERE relation = 'alice.t'::regclass;
        DROP TABLE alice.t; DROP TYPE alice.pair, alice.state});
    return is($sent, $ROWS, "$what: no change is denied");
}

sent('conditions on an enum',              q{s IS DISTINCT FROM 'open'::alice.state}, 'alice.state');
sent('a table with a column of an enum',   q{owner <> 'x'},                              'alice.state');
sent('conditions on an array of an enum',  q{(s = '{open}') IS NOT TRUE},                'alice.state[]');
sent('conditions on a row type',           q{((s).a > 1 OR (s).b = 'open') IS NOT TRUE}, 'alice.pair');
sent('conditions with subscripts',         q{(s)[1] IS DISTINCT FROM 1},                 'int[]');
sql('GRANT clairon_app TO alice');
sent('a member of clairon_app, conditions that name a table', q{upper(owner) = 'BOB' AND 'alice.t'::regclass IS NOT NULL}, 'int');
done_testing();
