# Clairon::Test::StubRows: replaces clairon.live_rows() with a function that has the same signature and returns results
# that a test sets.
#
#   my $stub = Clairon::Test::StubRows->new($pg);
#   $stub->set('t', audience => 'USER', row_count => 3, delay => 0.5, snapshot => '7:9:7', denied => '{u2}');
#   $stub->calls('t')      # the user and the groups of each call
package Clairon::Test::StubRows;

use strict;
use warnings;

use PostgreSQL::Test::Utils qw(slurp_file);

my $NAME = 'clairon.live_rows';

# Each source has a rule "default". Without `snapshot` a result contains the current snapshot. Each row contains its
# number and the user.
sub new
{
    my ($class, $pg) = @_;
    $pg->safe_psql('postgres', qq{
        DO \$\$ BEGIN
            IF to_regproc('$NAME') IS NOT NULL THEN
                ALTER EXTENSION clairon DROP FUNCTION $NAME;
                DROP FUNCTION $NAME;
            END IF;
        END \$\$;
        CREATE TABLE stub (source text PRIMARY KEY, audience text DEFAULT 'USER', row_count integer DEFAULT 1, width integer DEFAULT 0,
                           delay float8 DEFAULT 0, snapshot text, denied text[] DEFAULT '{}')});
    $pg->safe_psql('postgres', q{
        CREATE FUNCTION clairon.live_rows(source text, name text, user_id text, groups jsonb, max_rows integer, max_bytes bigint,
                                          filter jsonb, sort text[], after jsonb, "limit" integer, is_count boolean)
            RETURNS SETOF text LANGUAGE plpgsql SECURITY DEFINER AS $function$
        DECLARE
            result public.stub;
        BEGIN
            RAISE LOG 'live_rows: % % %', source, user_id, groups;
            SELECT * INTO result FROM public.stub WHERE stub.source = live_rows.source;
            IF result.source IS NULL OR name <> 'default' OR user_id = ANY (result.denied) THEN
                RETURN;
            END IF;
            IF result.row_count > max_rows OR result.row_count * result.width > max_bytes THEN
                RAISE EXCEPTION 'too many rows' USING ERRCODE = '54000';
            END IF;
            PERFORM pg_sleep(result.delay);
            RETURN NEXT json_build_object('key', array['id'], 'snapshot', coalesce(result.snapshot, clairon.snapshot()),
                                          'audience', result.audience, 'judge', '[]'::json);
            RETURN QUERY SELECT json_build_object('id', i, 'user', user_id, 'text', repeat('x', result.width))::text
                FROM generate_series(1, result.row_count) i;
        END $function$;
        REVOKE ALL ON FUNCTION clairon.live_rows FROM PUBLIC;
        GRANT EXECUTE ON FUNCTION clairon.live_rows TO clairon_relay});
    return bless { pg => $pg }, $class;
}

# Sets the results for a source; other columns keep their values.
sub set
{
    my ($self, $source, %values) = @_;
    my @columns = sort keys %values;
    my $list    = join ', ', map { defined $values{$_} ? "'$values{$_}'" : 'NULL' } @columns;
    $self->{pg}->safe_psql('postgres', "INSERT INTO stub (source) VALUES ('$source') ON CONFLICT DO NOTHING;"
          . (@columns ? " UPDATE stub SET (@{[ join ', ', @columns ]}) = ROW($list) WHERE source = '$source'" : ''));
    return;
}

# The users and groups for which this source was read, in order.
sub calls
{
    my ($self, $source) = @_;
    return slurp_file($self->{pg}->logfile) =~ /LOG:  live_rows: \Q$source\E (.*)$/mg;
}

1;
