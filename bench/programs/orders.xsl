<?xml version="1.0"?>
<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- Orders by town as a page of HTML: keys, sorting, named templates, recursion over texts. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:output method="html"/>
  <xsl:key name="by-town" match="order" use="@town"/>
  <xsl:template match="/orders">
    <html><body>
      <xsl:for-each select="order[generate-id() = generate-id(key('by-town', @town)[1])]">
        <xsl:sort select="@town"/>
        <h1><xsl:value-of select="@town"/></h1>
        <table>
          <xsl:for-each select="key('by-town', @town)">
            <xsl:sort select="sum(line/@count)" data-type="number" order="descending"/>
            <tr><td><xsl:value-of select="customer"/></td><td><xsl:apply-templates select="line"/></td>
              <td><xsl:call-template name="words"><xsl:with-param name="rest" select="normalize-space(note)"/></xsl:call-template></td></tr>
          </xsl:for-each>
        </table>
      </xsl:for-each>
    </body></html>
  </xsl:template>
  <xsl:template match="line"><xsl:value-of select="concat(@count, ' of ', name, ' at ', format-number(@price * @count, '0.00'), '; ')"/></xsl:template>
  <xsl:template name="words">
    <xsl:param name="rest"/>
    <xsl:if test="$rest != ''">
      <i><xsl:value-of select="translate(substring-before(concat($rest, ' '), ' '), 'aeiou', 'AEIOU')"/></i>
      <xsl:call-template name="words"><xsl:with-param name="rest" select="substring-after($rest, ' ')"/></xsl:call-template>
    </xsl:if>
  </xsl:template>
</xsl:stylesheet>
